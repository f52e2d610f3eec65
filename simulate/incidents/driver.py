"""What the driver reports, and what becomes of a GPU that it loses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..conditions import Region
from ..health import COUNTERS
from . import Incident, KernelLine, Kind

if TYPE_CHECKING:
    from ..telemetry import Samples


class XidChain(Kind):
    """An application's page fault and what follows from it: 31, 43, then 45 for every channel."""

    def show(self, samples: Samples, cells: Region) -> None:
        """The gauge holds the last code until the driver reloads."""
        if "xid" in samples.values:
            samples.values["xid"][cells[0][0, 0] :, cells[1][0]] = 45

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:
        for gpu in incident.gpus:
            start_s = incident.start_s
            yield KernelLine.xid(gpu, start_s, 31, "pid=41022, name=python3, Ch 00000008, intr "
                                 "00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_4 faulted")  # fmt: skip
            yield KernelLine.xid(gpu, start_s + 1, 43, "pid=41022, name=python3, Ch 00000008")
            for channel in range(9, 13):
                yield KernelLine.xid(gpu, start_s + 2 + channel / 100, 45,
                                     f"pid=41022, name=python3, Ch {channel:08x}")  # fmt: skip


class GpuLost(Kind):
    """It falls off the bus (79): from then on the exporter prints nothing for it."""

    def show(self, samples: Samples, cells: Region) -> None:
        samples.missing[cells] = True

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:
        for gpu in incident.gpus:
            text = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
            yield KernelLine.xid(gpu, incident.start_s, 79, text)
            address = gpu.pci_bus_id[4:].lower()
            yield KernelLine(gpu.node, incident.start_s + 0.001,
                             f"NVRM: GPU {address}: GPU has fallen off the bus.")  # fmt: skip


class DriverReload(Kind):
    """Maintenance: the driver is loaded anew, counters begin at 0 and the last XID is forgotten."""

    is_fault = False

    def show(self, samples: Samples, cells: Region) -> None:
        samples.missing[cells] = True
        first, last, mine = cells[0][0, 0], cells[0][-1, 0], cells[1][0]
        for name in COUNTERS:
            if name in samples.values:
                samples.values[name][first:, mine] -= samples.values[name][last, mine]
        if "xid" in samples.values:
            samples.values["xid"][first:, mine] = -1
