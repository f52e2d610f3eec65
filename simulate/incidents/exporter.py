"""What goes wrong between the GPU and the page. The GPU is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..conditions import Region
from . import Kind

if TYPE_CHECKING:
    from ..telemetry import Samples

# What DCGM prints for "no value" (dcgm_structs.h), and a utilisation seen about once in 176,000
# samples (DCGM issue 199).
BLANKS = (("power_w", 2.0**47), ("sm_clock_mhz", 2**31 - 16), ("util_percent", 2**32 - 1),
          ("tensor_ratio", 2.0**47))  # fmt: skip


class FrozenExporter(Kind):
    """The exporter answers and repeats its last values (gpu-monitoring-tools issue 188)."""

    def show(self, samples: Samples, cells: Region) -> None:
        for array in samples.values.values():
            array[cells] = array[cells][:1]


class Sentinels(Kind):
    """One scrape in fifty prints a number that stands for none."""

    is_fault = False

    def show(self, samples: Samples, cells: Region) -> None:
        rows, mine = cells
        for turn, row in enumerate(rows[::50, 0]):
            name, number = BLANKS[turn % len(BLANKS)]
            samples.values[name][row, mine[0]] = number


class CounterReset(Kind):
    """The energy counter begins anew without any reload (amdsmi issue 38)."""

    is_fault = False

    def show(self, samples: Samples, cells: Region) -> None:
        first, mine = cells[0][0, 0], cells[1][0]
        energy = samples.values["energy_mj"]
        energy[first:, mine] -= energy[first, mine]


class MissedScrapes(Kind):
    """The node is not scraped for a while: nothing is known, nothing is wrong with its GPUs."""

    is_fault = False

    def show(self, samples: Samples, cells: Region) -> None:
        samples.missing[cells] = np.True_
