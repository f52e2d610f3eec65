"""Links that lose lanes or errors that pile up on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..conditions import Region
from . import Incident, KernelLine, Kind, grow

if TYPE_CHECKING:
    from ..telemetry import Samples


class PcieWidth(Kind):
    """A link trains to eight lanes and retries (NVSentinel issue 890)."""

    def show(self, samples: Samples, cells: Region) -> None:
        if "pcie_width" in samples.values:
            samples.values["pcie_width"][cells] = 8
            grow(
                samples, "pcie_replay", cells, 60
            )  # Gen4 x16 allows 16 a minute (DCGM's health rule)


class NvlinkErrors(Kind):
    """A link retries and recovers: DCGM calls one replay or recovery a failure."""

    def show(self, samples: Samples, cells: Region) -> None:
        for name, rate in (("nvlink_crc", 40), ("nvlink_replay", 5), ("nvlink_recovery", 1)):
            if name in samples.values:
                grow(samples, name, cells, rate)

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:
        for gpu in incident.gpus:
            yield KernelLine.xid(gpu, incident.start_s, 74, "NVLink: fatal error detected on link 3"
                                 "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")  # fmt: skip
