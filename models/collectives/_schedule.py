"""What waits for what in a training step with pipeline and data parallelism.

The dependency graph of Lin et al., "Understanding Stragglers in Large Model Training Using What-if
Analysis" (OSDI 25, section 4), in the reading of the authors' artefact
(ByteDance-Seed/StragglerAnalysis@8efcd7f), whose result files the tests compare with:

- computes of a stage run one after the other; so do operations of each of the four point-to-point
  kinds, and all-gathers and reduce-scatters of the data-parallel group;
- a send follows its compute; a compute follows its receive, and the receive follows the compute of
  the same direction before it;
- the first backward send and receive follow the compute before the last warm-up forward;
- the first forward of a model chunk follows the all-gather of its parameters;
- after the last compute: garbage collection, layer-norm and embedding gradients, reduce-scatter
  (where it does not overlap with the backward passes), clipping, optimizer;
- a send and its receive end together; so do the embedding gradients of the first and the last
  stage, clipping over all stages and data-parallel ranks, and data-parallel collectives.

Every data-parallel rank and every step has the same graph: it is made once, from one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

FORWARD, BACKWARD = "forward-compute", "backward-compute"
GATHER, REDUCE, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
NORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
PAUSE, CLIP, OPTIMIZER = "gc", "optimizer-clip-main-grad", "optimizer"
# Kind of a transfer: the direction, and where its other end is in the order of stages.
TRANSFERS = {
    "forward-send": ("forward", 1),
    "forward-recv": ("forward", -1),
    "backward-send": ("backward", -1),
    "backward-recv": ("backward", 1),
}
DATA_PARALLEL = (GATHER, REDUCE, SEPARATE)
KINDS = frozenset(
    {FORWARD, BACKWARD, *DATA_PARALLEL, NORM, EMBEDDING, PAUSE, CLIP, OPTIMIZER, *TRANSFERS}
)
CLOCK_S = (
    5e-5  # ends and starts of one rank that lie closer are the same moment: the authors' value
)


class ScheduleError(ValueError):
    """The operations do not fit the graph; the text says which."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one rank and step; `place` is its index, `number` counts within its kind."""

    place: int
    stage: int
    kind: str
    number: int
    start_s: float
    end_s: float
    chunk: int
    global_chunk: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """Operations that end together: once all have started, each takes its own transfer.

    after   per member, the operations that must have ended before it starts
    waits   false for a compute, which ends its own duration after its start
    synced  the members wait for those of all data-parallel ranks, too
    """

    members: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    waits: bool
    synced: bool


def schedule(operations: Sequence[Operation]) -> list[Meeting]:
    """The graph in an order in which each meeting comes after what it waits for.

    Raises ScheduleError for kinds it does not know and for sends without receives.
    """
    if unknown := {o.kind for o in operations} - KINDS:
        raise ScheduleError(f"no place in the schedule for {', '.join(sorted(unknown))}")
    if not any(o.kind == OPTIMIZER for o in operations):
        raise ScheduleError("the step has no optimizer operation, so its end is unknown")
    stages = [
        _Stage([o for o in operations if o.stage == n])
        for n in sorted({o.stage for o in operations})
    ]
    after: dict[int, list[int]] = {o.place: [] for o in operations}
    idle: set[int] = set()
    for number, stage in enumerate(stages):
        edges, unused = _transfers(stage, _last_chunk(stages))
        idle |= unused
        edges += _streams(stage)
        edges += _end_of_step(stage, at_edge=number in (0, len(stages) - 1))
        for earlier, later in edges:
            after[later].append(earlier)
    return _ordered(after, _meetings(stages, idle), operations)


class _Stage:
    """The operations of one pipeline stage."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = sorted(operations, key=lambda o: (o.start_s, o.number, o.kind))
        self.computes = [o for o in self.operations if o.kind in (FORWARD, BACKWARD)]
        if not self.computes:
            raise ScheduleError("a stage without compute")

    def of(self, *kinds: str) -> list[Operation]:
        return [o for o in self.operations if o.kind in kinds]

    @property
    def overlaps(self) -> bool:
        """Gradients are reduced while backward passes still run."""
        return bool(self.of(SEPARATE))


Edges = list[tuple[int, int]]


def _chain(operations: Iterable[Operation]) -> Edges:
    return [(a.place, b.place) for a, b in pairwise(operations)]


def _last_chunk(stages: Sequence[_Stage]) -> int:
    return max(o.global_chunk for stage in stages for o in stage.computes)


def _transfers(stage: _Stage, last_chunk: int) -> tuple[Edges, set[int]]:
    """Edges between transfers and computes, and the transfers that lead out of the model.

    A tracer notes sends before the first and receives after the last compute that never ran: they
    belong to no compute. A receive too few on the first stage is the one that brings nothing.
    """
    edges: Edges = []
    idle: set[int] = set()
    for kind, (direction, step) in TRANSFERS.items():
        computes = stage.of(f"{direction}-compute")
        found = stage.of(kind)
        if not computes or not found:
            idle |= {o.place for o in found}
            continue
        receives = kind.endswith("recv")
        first_end, last_start = min(o.end_s for o in computes), max(o.start_s for o in computes)
        real = [
            o for o in found
            if (o.start_s <= last_start + CLOCK_S if receives else o.end_s >= first_end - CLOCK_S)
        ]  # fmt: skip
        skipped = int(receives and len(real) + 1 == len(computes))
        if len(real) > len(computes) - skipped:
            raise ScheduleError(f"{len(real)} {kind} for {len(computes)} computes")
        idle |= {o.place for o in found} - {o.place for o in real}
        for number, transfer in enumerate(real, skipped):
            compute = computes[number]
            if not 0 <= compute.global_chunk + step <= last_chunk:
                idle.add(transfer.place)
            if not receives:
                edges.append((compute.place, transfer.place))
                continue
            edges.append((transfer.place, compute.place))
            if number:
                edges.append((computes[number - 1].place, transfer.place))
    return edges, idle


def _streams(stage: _Stage) -> Edges:
    """What runs one after the other, and what the first passes wait for."""
    edges = _chain(stage.computes) + _chain(stage.of(GATHER, REDUCE))
    for kind in TRANSFERS:
        edges += _chain(stage.of(kind))
    first = next((n for n, o in enumerate(stage.computes) if o.kind == BACKWARD), 0)
    if first >= 2:
        warm_up = stage.computes[first - 2]
        edges += [
            (warm_up.place, found[0].place)
            for kind in ("backward-send", "backward-recv")
            if (found := stage.of(kind))
        ]
    gathers = {o.chunk: o for o in stage.of(GATHER)}
    for chunk, gather in gathers.items():
        forward = next((o for o in stage.of(FORWARD) if o.chunk == chunk), None)
        if forward:
            edges.append((gather.place, forward.place))
    return edges


def _end_of_step(stage: _Stage, *, at_edge: bool) -> Edges:
    """From the last compute of a stage to its optimizer."""
    last = max(stage.computes, key=lambda o: o.end_s)
    pause = stage.of(PAUSE)[:1]
    edges = _chain([last, *pause])
    embedding = stage.of(EMBEDDING) if at_edge else []
    reduces = stage.of(REDUCE)
    closing = [*stage.of(CLIP), *stage.of(OPTIMIZER)]
    if not stage.overlaps:
        return edges + _chain([*(pause or [last]), *stage.of(NORM), *embedding, *reduces, *closing])
    chain = [*stage.of(NORM), *embedding, *stage.of(SEPARATE), *closing]
    edges += _chain(chain) + [
        (o.place, chain[0].place) for o in (*reduces[-1:], *(pause or [last]))
    ]
    seen: set[int] = set()
    for reduce in reduces:
        backward = [o for o in stage.of(BACKWARD) if o.chunk == reduce.chunk]
        if reduce.chunk not in seen and backward:
            edges.append((max(backward, key=lambda o: o.end_s).place, reduce.place))
        seen.add(reduce.chunk)
    return edges


def _meetings(stages: Sequence[_Stage], idle: set[int]) -> dict[int, tuple[int, ...]]:
    """For each operation that waits for others, those it ends together with."""
    groups: list[tuple[int, ...]] = []
    for number, stage in enumerate(stages):
        groups += [(o.place,) for o in stage.of(*DATA_PARALLEL)]
        groups += [(o.place,) for o in stage.of(*TRANSFERS) if o.place in idle]
        for direction, step in (("forward", 1), ("backward", -1)):
            peer = stages[(number + step) % len(stages)]
            sends, receives = (
                [o for o in of.of(f"{direction}-{way}") if o.place not in idle]
                for of, way in ((stage, "send"), (peer, "recv"))
            )
            if len(sends) != len(receives):
                raise ScheduleError(
                    f"{len(sends)} {direction}-send of stage {number} meet {len(receives)} receives"
                )
            groups += [(a.place, b.place) for a, b in zip(sends, receives, strict=True)]
    edge = stages[:1] if len(stages) == 1 else [stages[0], stages[-1]]
    groups.append(tuple(o.place for stage in edge for o in stage.of(EMBEDDING)))
    groups.append(tuple(o.place for stage in stages for o in stage.of(CLIP)))
    return {member: group for group in groups for member in group}


def _ordered(
    after: dict[int, list[int]],
    together: dict[int, tuple[int, ...]],
    operations: Sequence[Operation],
) -> list[Meeting]:
    synced = {o.place for o in operations if o.kind in (*DATA_PARALLEL, CLIP)}
    graph = {}
    for place in after:
        members = together.get(place, (place,))
        graph[members] = {together.get(e, (e,)) for m in members for e in after[m]}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        names = {o.place: f"{o.kind} {o.number} of stage {o.stage}" for o in operations}
        ring = " -> ".join(names[members[0]] for members in error.args[1])
        raise ScheduleError(f"operations wait for each other: {ring}"[:500]) from None
    return [
        Meeting(
            members,
            tuple(tuple(dict.fromkeys(after[m])) for m in members),
            waits=members[0] in together,
            synced=members[0] in synced,
        )
        for members in order
    ]
