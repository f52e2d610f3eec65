"""What can happen to GPUs, sick or not: one class per kind, found by its file.

A fault is something to be found; a benign twin looks like one and must not be. A kind acts on the
conditions before the sensors read them, on what is printed, and on the kernel's log.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..conditions import Conditions, Region
from ..fleet import Gpu

if TYPE_CHECKING:
    from ..steps import StepTimes
    from ..telemetry import Samples

Cells = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True)
class Incident:
    """A kind that happens to some GPUs for a while. `effect_ratio` is how much speed it takes."""

    kind: str
    gpus: tuple[Gpu, ...]
    start_s: float
    end_s: float
    effect_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One line a node's kernel prints."""

    node: str
    ts_s: float
    text: str

    @classmethod
    def xid(cls, gpu: Gpu, ts_s: float, code: int, text: str) -> KernelLine:
        """As the driver words it: samples/telemetry/kernel/xid_lines.txt."""
        address = gpu.pci_bus_id[4:-2].lower()  # domain of four digits, no function
        return cls(gpu.node, ts_s, f"NVRM: Xid (PCI:{address}): {code}, {text}")


class Kind:
    """A kind of incident; its name is the class's in snake case."""

    is_fault: ClassVar[bool] = True
    slows: ClassVar[bool] = False  # one GPU computes slower than its peers
    of_steps: ClassVar[bool] = False  # seen in step records, hardly or not in telemetry

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        """Change what acts on the GPUs."""

    def show(self, samples: Samples, cells: Region) -> None:
        """Change what the exporter prints."""

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        """Make parts of steps longer where that does not follow from the GPU's own speed.

        `cells` index the steps that begin within the incident, by the ranks on its GPUs.
        """

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:  # noqa: ARG002 - for kinds that log
        """What the kernel logs."""
        yield from ()


def grow(samples: Samples, name: str, cells: Region, per_minute: float) -> None:
    """A counter that rises at a rate within the cells and keeps its height afterwards."""
    rows, mine = cells[0][:, 0], cells[1][0]
    minutes = (samples.ts_s[cells] - samples.ts_s[cells][:1]) / 60
    risen = (per_minute * minutes).astype(np.int64)
    samples.values[name][cells] += risen
    samples.values[name][rows[-1] + 1 :, mine] += risen[-1]


@cache
def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f".{module.name}", __package__)
    return {_snake(cls.__name__): cls() for cls in Kind.__subclasses__()}


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
