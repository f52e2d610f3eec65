"""Replay of arrivals on a number of GPUs: first come first served with backfill, gangs, queue limits.

Event by event in Python, because each start depends on all those before it: no columns. Measured: 78,000 jobs a
CPU second on 4,096 GPUs in nodes of 8 at 85 % load (`python -m fleetmark.benchmarks capacity`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

# Waiting jobs that a pass looks at behind the first: Slurm's default of bf_max_job_test.
BACKFILL_DEPTH = 500


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job as the replay sees it.

    ready_s    from when it may start
    gpus       GPUs it needs, all at once
    run_s      how long it holds them
    limit_s    how long the scheduler thinks it will: its time limit
    queue      number of its queue, for limits
    fixed      it ran before the replay begins: it starts at ready_s whatever is free
    """

    ready_s: float
    gpus: int
    run_s: float
    limit_s: float
    queue: int = 0
    fixed: bool = False


class Nodes:
    """Free GPUs by node: what is smaller than a node goes on one, the fullest it fits; larger jobs take
    whole free nodes and the rest of one more.

    With `per_node` 0 all GPUs are one pool.
    """

    def __init__(self, gpus: int, per_node: int) -> None:
        self.free = gpus
        self.size = per_node or max(gpus, 1)
        count, rest = divmod(gpus, self.size)
        # by_free[k]: nodes with k free GPUs, as a stack.
        self.by_free: list[set[int]] = [set() for _ in range(self.size + 1)]
        self.by_free[self.size].update(range(count))
        if rest:
            self.by_free[rest].add(count)
        self.free_of = [self.size] * count + ([rest] if rest else [])

    def take(self, gpus: int) -> list[tuple[int, int]] | None:
        """Places for a gang, as (node, GPUs); None if it does not fit."""
        if gpus > self.free:
            return None
        whole, rest = divmod(gpus, self.size)
        full = self.by_free[self.size]
        if len(full) < whole:
            return None
        nodes = [full.pop() for _ in range(whole)]
        places = [(node, self.size) for node in nodes]
        if rest:
            node = self._fullest(rest)
            if node is None:
                full.update(nodes)
                return None
            places.append((node, rest))
        for node in nodes:
            self.free_of[node] = 0
            self.by_free[0].add(node)
        if rest:
            self._move(places[-1][0], -rest)
        self.free -= gpus
        return places

    def _fullest(self, gpus: int) -> int | None:
        for free in range(gpus, self.size + 1):
            if self.by_free[free]:
                return next(iter(self.by_free[free]))
        return None

    def _move(self, node: int, change: int) -> None:
        free = self.free_of[node]
        self.by_free[free].discard(node)
        self.free_of[node] = free + change
        self.by_free[free + change].add(node)

    def give_back(self, places: Sequence[tuple[int, int]]) -> None:
        for node, gpus in places:
            self._move(node, gpus)
            self.free += gpus


class Replay:
    """One run over the arrivals; `starts` holds when each started, None while it has not."""

    def __init__(
        self, arrivals: Sequence[Arrival], gpus: int, per_node: int, limits: Sequence[int | None]
    ) -> None:
        self.arrivals = arrivals
        self.nodes = Nodes(gpus, per_node)
        self.limits = limits
        self.used = [0] * max(len(limits), 1)
        self.starts: list[float | None] = [None] * len(arrivals)
        self.waiting: list[int] = []
        self.ends: list[tuple[float, int]] = []
        # When running jobs will be gone by their limits: (time, job, GPUs), in order.
        self.expected: list[tuple[float, int, int]] = []
        self.places: dict[int, list[tuple[int, int]]] = {}

    def run(self) -> list[float | None]:
        """Arrivals in order of ready_s; those that can never fit stay without a start."""
        order = sorted(range(len(self.arrivals)), key=lambda n: self.arrivals[n].ready_s)
        following = 0
        while following < len(order) or self.ends:
            arriving = (
                self.arrivals[order[following]].ready_s if following < len(order) else float("inf")
            )
            now = min(arriving, self.ends[0][0] if self.ends else float("inf"))
            while self.ends and self.ends[0][0] <= now:
                self._end(heapq.heappop(self.ends)[1])
            while following < len(order) and self.arrivals[order[following]].ready_s <= now:
                self._arrive(order[following], now)
                following += 1
            self._pass(now)
        return self.starts

    def _arrive(self, job: int, now: float) -> None:
        if self.arrivals[job].fixed and self._start(job, now):
            return
        self.waiting.append(job)

    def _start(self, job: int, now: float) -> bool:
        one = self.arrivals[job]
        limit = self.limits[one.queue] if self.limits else None
        if limit is not None and self.used[one.queue] + one.gpus > limit:
            return False
        places = self.nodes.take(one.gpus)
        if places is None:
            return False
        self.used[one.queue] += one.gpus
        self.places[job] = places
        self.starts[job] = now
        heapq.heappush(self.ends, (now + one.run_s, job))
        insort(self.expected, (now + max(one.limit_s, one.run_s), job, one.gpus))
        return True

    def _end(self, job: int) -> None:
        one = self.arrivals[job]
        self.nodes.give_back(self.places.pop(job))
        self.used[one.queue] -= one.gpus
        start = self.starts[job] or 0.0
        key = (start + max(one.limit_s, one.run_s), job, one.gpus)
        self.expected.pop(bisect_left(self.expected, key))

    def _pass(self, now: float) -> None:
        """Start what fits in order; behind the first that does not, what does not delay it."""
        started: set[int] = set()
        shadow_s: float | None = None
        spare = 0
        for job in self.waiting[: BACKFILL_DEPTH + 1] if self.nodes.free else ():
            one = self.arrivals[job]
            limit = self.limits[one.queue] if self.limits else None
            if limit is not None and self.used[one.queue] + one.gpus > limit:
                continue  # held back by its own queue: it reserves nothing
            if shadow_s is None:
                if self._start(job, now):
                    started.add(job)
                else:
                    shadow_s, spare = self._shadow(now, one.gpus)
                continue
            if one.gpus > self.nodes.free:
                continue
            ends_before = now + max(one.limit_s, one.run_s) <= shadow_s
            if (ends_before or one.gpus <= spare) and self._start(job, now):
                started.add(job)
                spare -= 0 if ends_before else one.gpus
        if started:
            self.waiting = [job for job in self.waiting if job not in started]

    def _shadow(self, now: float, gpus: int) -> tuple[float, int]:
        """When the first in line can start by the limits of what runs, and the GPUs to spare then."""
        free = self.nodes.free
        for end_s, _, freed in self.expected:
            free += freed
            if free >= gpus:
                return max(now, end_s), free - gpus
        # More than there are GPUs: it never starts and reserves nothing.
        return float("inf"), self.nodes.free
