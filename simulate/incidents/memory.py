"""Memory errors: corrected ones in a storm, and rows that wait for their remap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..conditions import Region
from . import Incident, KernelLine, Kind, grow

if TYPE_CHECKING:
    from ..telemetry import Samples


class EccStorm(Kind):
    """Corrected errors at a high rate; the driver says so once (XID 92)."""

    def show(self, samples: Samples, cells: Region) -> None:
        if "ecc_sbe" in samples.values:
            grow(samples, "ecc_sbe", cells, 500)

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:
        for gpu in incident.gpus:
            yield KernelLine.xid(gpu, incident.start_s + 30, 92, "High single-bit ECC error rate")


class RemapPending(Kind):
    """An uncorrected error: the application dies (48, 94), a row waits for a reset to be remapped (63)."""

    def show(self, samples: Samples, cells: Region) -> None:
        if "remap_pending" in samples.values:
            samples.values["remap_pending"][cells] = 1
            samples.values["ecc_dbe"][cells] += 1
            samples.values["remapped_rows"][cells[0][0, 0] :, cells[1][0]] += 1

    def kernel(self, incident: Incident) -> Iterator[KernelLine]:
        for gpu in incident.gpus:
            start_s = incident.start_s
            yield KernelLine.xid(gpu, start_s, 48, "DBE (Double Bit Error) ECC Error (Aggregate)")
            yield KernelLine.xid(gpu, start_s + 0.1, 63,
                                 "Row Remapper: New row marked for remapping, reset gpu to activate.")  # fmt: skip
            yield KernelLine.xid(gpu, start_s + 0.2, 94, "pid=41022, name=python3, Ch 00000008")
