"""Slowness of steps that is nobody's fault: it moves, or it is everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..conditions import Conditions, Region
from . import Cells, Incident, Kind

if TYPE_CHECKING:
    from ..steps import StepTimes

GC_SHARE = 0.02  # of the steps, per rank


class SequenceLengths(Kind):
    """Batches differ in length: in every step another data-parallel replica has the longest.

    On public trace SE forward and backward of a stage rise together (correlation 0.99), and no rank of
    32 is the last in more than 12 % of the steps.
    """

    is_fault = False
    of_steps = True

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        dp_rank = np.array(times.layout.dp_rank)[cells[1][0]]
        lengths = random.lognormal(0, incident.effect_ratio, (cells[0].size, times.layout.dp))
        times.stretch(cells, lengths[:, dp_rank])
        times.tokens[cells] *= lengths[:, dp_rank]


class GarbageCollection(Kind):
    """The interpreters pause now and then, each for itself (MegaScale, NSDI 24, section 6.3)."""

    is_fault = False
    of_steps = True

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        shape = (cells[0].size, cells[1].size)
        pauses = random.random(shape) < GC_SHARE
        pause_s = (
            pauses
            * incident.effect_ratio
            * times.layout.compute_s
            * random.uniform(0.5, 1.5, shape)
        )
        into = np.where(random.random(shape) < 0.5, 1, 0)
        times.forward_s[cells] += into * pause_s
        times.backward_s[cells] += (1 - into) * pause_s
        times.launch_s[cells] += pause_s


class CodeChange(Kind):
    """From here on the job's steps do more work, on all ranks alike."""

    is_fault = False
    of_steps = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.work[cells] *= 1 + incident.effect_ratio


class Evaluation(Kind):
    """Every few hours the job evaluates for some minutes instead of stepping."""

    is_fault = False
    of_steps = True
    every_s = 4 * 3_600
    lasts_s = 480

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        evaluating = self._evaluating(now.ts_s[cells], incident)
        now.active[cells] *= np.where(evaluating, 0.6, 1).astype(np.float32)

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        del random
        rows = cells[0][:, 0]
        times.halted[rows] |= self._evaluating(times.ts_s[rows], incident)

    def _evaluating(self, ts_s: np.ndarray, incident: Incident) -> np.ndarray:
        return (ts_s - incident.start_s) % self.every_s >= self.every_s - self.lasts_s
