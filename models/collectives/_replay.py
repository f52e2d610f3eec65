"""A traced step replayed with other costs: as traced, without stragglers, with some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._schedule import BACKWARD, FORWARD, OPTIMIZER, PAUSE, Operation, schedule

Single = NDArray[np.float32]
Floats = NDArray[np.float64]
# By operation: its cost per step and data-parallel rank, or one that holds for all of them.
Cost = Callable[[int], "Single | Floats | float"]
EARLY_S = 1e-2  # a transfer that ends this long before its last member started is noise: 0
MEANS = (FORWARD, BACKWARD, PAUSE, OPTIMIZER)  # all other kinds are idealised by their median


@dataclass(frozen=True, slots=True)
class Trace:
    """Complete steps of a job as arrays.

    start_s, duration_s   operations x steps x data-parallel ranks, single precision as traced
    operations            what the rows of these arrays are, seen in the first step of rank 0
    ranks                 global rank by (stage, data-parallel rank)
    dp_ranks              the data-parallel ranks
    """

    start_s: Single
    duration_s: Single
    operations: Sequence[Operation]
    ranks: NDArray[np.int64]
    dp_ranks: Sequence[int]


class Replay:
    """Step times of a trace under any costs. Raises ScheduleError as `schedule` does."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.meetings = schedule(trace.operations)
        self.traced = self._transfers()
        self.ideal = self._ideal()
        self.done = self._done()

    def base_s(self) -> Floats:
        """Step times as traced."""
        ends = (self.trace.start_s + self.trace.duration_s).max(axis=(0, 2))
        base_s: Floats = (ends - self.trace.start_s.min(axis=(0, 2))).astype(np.float64)
        return base_s

    def _transfers(self) -> Single:
        """Durations, for operations that wait for others cut to the time after all had started."""
        start = self.trace.start_s
        cost = self.trace.duration_s.copy()
        for meeting in self.meetings:
            if not meeting.waits:
                continue
            members = list(meeting.members)
            last = start[members].max(axis=0)
            if meeting.synced:
                last = last.max(axis=-1, keepdims=True)
            transfer = start[members] + cost[members] - last
            cost[members] = np.where(transfer <= -EARLY_S, 0, transfer)
        return cost

    def _ideal(self) -> Floats:
        """Per operation the cost of its kind over all stages, ranks and steps."""
        places: dict[str, list[int]] = {}
        for operation in self.trace.operations:
            places.setdefault(operation.kind, []).append(operation.place)
        ideal = np.empty(len(self.trace.operations))
        for kind, rows in places.items():
            values = self.traced[rows]
            ideal[rows] = values.mean(dtype=np.float64) if kind in MEANS else np.median(values)
        return ideal

    def _done(self) -> list[list[int]]:
        """Per meeting, the operations that no later one waits for: their ends are let go."""
        last = {
            place: number
            for number, meeting in enumerate(self.meetings)
            for place in (*meeting.members, *(e for earlier in meeting.after for e in earlier))
        }
        done: list[list[int]] = [[] for _ in self.meetings]
        for place, number in last.items():
            done[number].append(place)
        return done

    def step_s(self, cost: Cost) -> Floats:
        """Time from the first start to the last end of every step; launch delays are left out.

        The last axis of a cost is that of the data-parallel ranks; it is gone in the result.
        """
        ends: dict[int, Floats | float] = {}
        longest: Floats | float = 0.0
        for meeting, done in zip(self.meetings, self.done, strict=True):
            starts = [_latest(ends, earlier) for earlier in meeting.after]
            if meeting.waits:
                begin = starts[0]
                for other in starts[1:]:
                    begin = np.maximum(begin, other)
                if meeting.synced and np.ndim(begin):
                    begin = np.max(begin, axis=-1, keepdims=True)
                starts = [begin] * len(starts)
            for member, begin in zip(meeting.members, starts, strict=True):
                ends[member] = end = begin + np.asarray(cost(member), dtype=np.float64)
                longest = np.maximum(longest, end)
            for place in done:
                del ends[place]
        seconds: Floats = np.max(np.atleast_1d(np.asarray(longest, dtype=np.float64)), axis=-1)
        return seconds


def _latest(ends: dict[int, Floats | float], earlier: Sequence[int]) -> Floats | float:
    if not earlier:
        return 0.0
    latest = ends[earlier[0]]
    for place in earlier[1:]:
        latest = np.maximum(latest, ends[place])
    return latest
