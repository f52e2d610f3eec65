"""Benign twins: what looks like a slow GPU and is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..conditions import Conditions, Region
from . import Cells, Incident, Kind

if TYPE_CHECKING:
    from ..steps import StepTimes


class FleetCap(Kind):
    """The site caps the power of all GPUs (demand response); weak chips lose more clock than others."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.limit_w[cells] *= 1 - incident.effect_ratio


class JobSlowdown(Kind):
    """The whole job slows: longer communication or data loading for everybody."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.slack[cells] += incident.effect_ratio

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        del random
        times.together_s[cells[0][:, 0]] += incident.effect_ratio * times.layout.compute_s


class DataStall(Kind):
    """The whole job starves for input: it computes only part of the time."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.active[cells] *= 1 - incident.effect_ratio

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        """Some wait a little longer than others, differently in every step."""
        starved_s = times.layout.compute_s * incident.effect_ratio / (1 - incident.effect_ratio)
        times.data_s[cells] += starved_s * random.uniform(0.8, 1.2, times.data_s[cells].shape)


class CheckpointPause(Kind):
    """Every hour the job stops for two minutes to write a checkpoint."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        pausing = (now.ts_s[cells] - incident.start_s) % 3_600 >= 3_480
        now.active[cells] *= np.where(pausing, 0.05, 1).astype(np.float32)

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        """The step is blocked for the rest of the two minutes; the first rank, which writes most, for longer."""
        pausing = (times.ts_s[cells[0]] - incident.start_s) % 3_600 >= 3_480
        blocked_s = random.uniform(20, 60) * (1 + 0.2 * (cells[1] == 0))
        times.checkpoint_s[cells] += np.where(pausing, blocked_s, 0)


class WarmUp(Kind):
    """A job loads, compiles and fills caches, each GPU at its own pace."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        pace = np.linspace(0.9 - incident.effect_ratio, 0.9, cells[1].size, dtype=np.float32)
        now.active[cells] *= pace

    def lengthen(
        self, times: StepTimes, cells: Cells, incident: Incident, random: np.random.Generator
    ) -> None:
        """All steps take longer at first, each rank's by a share of its own that wears off.

        The first 100 steps of Megatron's Mixtral run (samples/training) are 12 % slower.
        """
        pace = 1.12 + incident.effect_ratio * random.random(cells[1].size)
        left = 1 - (times.ts_s[cells[0]] - incident.start_s) / (incident.end_s - incident.start_s)
        times.stretch(cells, 1 + (pace - 1) * left)


class UnevenStages(Kind):
    """GPUs of one pipeline stage (the incident's) have more to do than the others, all job long."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.work[cells] *= 1 + incident.effect_ratio


class UnevenWork(Kind):
    """Work moves between GPUs over hours, as tokens do between experts."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        period_s = 20_000 * (1 + np.arange(cells[1].size) % 7 / 7)
        phase = np.arange(cells[1].size) * 2.399963  # the golden angle: no two alike
        wave = np.sin(2 * np.pi * now.ts_s[cells] / period_s + phase)
        now.work[cells] *= (1 + incident.effect_ratio * wave).astype(np.float32)


class RackInlet(Kind):
    """The air of a rack warms: its GPUs leak more and clock a little lower."""

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.inlet_c[cells] += 100 * incident.effect_ratio
