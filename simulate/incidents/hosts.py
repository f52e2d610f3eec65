"""What keeps a healthy GPU waiting or its host from working. `effect_ratio` e: a step's work takes 1 / (1 - e)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..conditions import Conditions, Region
from . import Cells, Incident, KernelLine, Kind

if TYPE_CHECKING:
    from ..steps import StepTimes
    from ..telemetry import Samples


def held_ratio(incident: Incident) -> float:
    """Time lost in a step, of the nominal computing."""
    return 1 / (1 - incident.effect_ratio) - 1


class LaunchDelay(Kind):
    """The host issues work too late: the GPU idles between kernels, which its timers count as computing."""

    of_steps = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.held[cells] += held_ratio(incident)

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        late = held_ratio(incident) * random.uniform(0.8, 1.2, times.launch_s[cells].shape)
        times.launch_s[cells] += late * times.layout.compute_s
        times.stretch(cells, 1 + late)


class DataWait(Kind):
    """One rank waits for its input in every step."""

    of_steps = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.held[cells] += held_ratio(incident)

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        late = held_ratio(incident) * random.uniform(0.8, 1.2, times.data_s[cells].shape)
        times.data_s[cells] += late * times.layout.compute_s


class SickNode(Kind):
    """A host (its memory, its PCIe, its governor) holds up all its GPUs, and no timer says with what."""

    of_steps = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.held[cells] += held_ratio(incident)

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        del random
        times.stretch(cells, 1 + held_ratio(incident))


class RowRemapped(Kind):
    """A memory row is remapped after corrected errors (92, 63); the job goes on."""

    of_steps = True

    def show(self, samples: Samples, cells: Region) -> None:
        if "remapped_rows" in samples.values:
            samples.values["remapped_rows"][cells[0][0, 0] :, cells[1][0]] += 1

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:
        """Before a GPU's first XID the driver says which GPU it is (open-gpu-kernel-modules, os-interface)."""
        for gpu in incident.gpus:
            address = gpu.pci_bus_id[4:-2].lower()
            yield KernelLine(gpu.node, incident.start_s, f"NVRM: GPU at PCI:{address}: {gpu.uuid}")
            yield KernelLine.xid(gpu, incident.start_s, 92, "High single-bit ECC error rate")
            yield KernelLine.xid(gpu, incident.start_s + 0.1, 63,
                                 "Row Remapper: New row marked for remapping, reset gpu to activate.")  # fmt: skip
