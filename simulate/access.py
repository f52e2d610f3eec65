"""A month of storage access by many people: their jobs, their looks at files, and thefts of four kinds.

What jobs do are the benign twins of theft: fine-tunes of a shared base, evaluation sweeps, a storm of
restarts, a serving roll-out, backup, conversion; beside them looks at headers, single shards fetched on a
login node, and one day on which everybody's network changes. Thieves have jobs like everybody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .checkpoints import Checkpoint, Object, released
from .fleet import BACKUP, DAY_S, HOUR_S, SERVE, START_S, Fleet, User, build_fleet, stream
from .flows import Flow
from .jobs import FIRST_JOB_ID, Attempt
from .reads import LOADER, MIB, Benign, Transfer, adhoc_principal, load
from .world import Theft, World

PEOPLE_PER_NODE = 10
SHARD = 5 << 30  # a whole shard in one answer
TELEMETRY_IP = "192.0.2.10"
CHANGE_OF_NAT_DAY = 20
# A recall of 0.99 shows on some 380 thefts and more; they are cheap to make.
BULK_TIMES = 5
SMALL_JOBS = ("finetune", "eval-sweep", "notebook")
# Days a week on which somebody runs a job, looks at a header, or fetches one shard of the largest model
# on a login node, per person: assumptions, the last two high on purpose.
JOB_DAY, PEEK_DAY, SHARD_DAY = 0.6, 0.05, 0.004


@dataclass
class _Month:
    """What has been made so far."""

    fleet: Fleet
    random: np.random.Generator
    weights: tuple[Checkpoint, ...]
    people: tuple[User, ...]
    attempts: list[Attempt] = field(default_factory=list)
    benign: list[Benign] = field(default_factory=list)
    thefts: list[Theft] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)

    @property
    def largest(self) -> Checkpoint:
        """One of the releases of the largest model, any."""
        return self.weights[2 + int(self.random.integers(len(self.weights) - 2))]

    def run(
        self, user: User, kind: str, start_s: float, seconds: float, attempt: int = 1
    ) -> Attempt:
        """A job on any node; a second attempt has the first one's id."""
        last = self.attempts[-1].job_id if self.attempts else FIRST_JOB_ID
        node = self.fleet.nodes[int(self.random.integers(len(self.fleet.nodes)))]
        begin_s = int(start_s)
        made = Attempt(
            last + (attempt == 1), attempt, kind, user, kind, begin_s - 30, 2 * DAY_S, 8, 96,
            begin_s - 30, begin_s, min(begin_s + int(seconds), self.fleet.end_s - 1),
            "COMPLETED" if attempt == 1 else "REQUEUED", (node.name,),
        )  # fmt: skip
        self.attempts.append(made)
        return made

    def read(self, kind: str, attempt: Attempt, source: Checkpoint) -> None:
        """A job loads a checkpoint; its node reports to the telemetry service."""
        transfer = load(self.fleet, attempt, source, float(self.random.uniform(60, 200)))
        note = "covered by the job named in the session"
        self.benign.append(
            Benign(kind, transfer.principal, attempt.job_id, source.name, _whole(transfer), note)
        )
        sent_bytes = int(self.random.uniform(1, 40) * MIB)
        self.flows.append(Flow(transfer.ip, TELEMETRY_IP, attempt.begin_s + 60, 600, sent_bytes))


def _whole(transfer: Transfer) -> Transfer:
    return Transfer(transfer.principal, transfer.ip, transfer.user_agent, transfer.objects,
                    transfer.start_s, transfer.seconds, SHARD)  # fmt: skip


def month(seed: int, nodes: int, days: int, thefts_of_each_kind: int) -> World:
    """`nodes` times ten people over `days`, with so many thefts of each kind, of bulk five times as many."""
    fleet = build_fleet(seed, nodes, days)
    people = tuple(User(f"u-{n:04d}", 5000 + n, "research") for n in range(nodes * PEOPLE_PER_NODE))
    weights = _releases(released(seed), max(3, (3 + BULK_TIMES) * thefts_of_each_kind))
    made = _Month(fleet, stream(seed, "access"), weights, people)
    for day in range(days):
        _services(made, START_S + day * DAY_S, day)
        for person in people:
            _person(made, person, START_S + day * DAY_S, day)
    _steal(made, thefts_of_each_kind)
    return World(
        fleet=fleet,
        attempts=tuple(sorted(made.attempts, key=lambda a: (a.submit_s, a.job_id, a.attempt))),
        checkpoints=made.weights,
        transfers=(*(b.transfer for b in made.benign), *(t.transfer for t in made.thefts)),
        thefts=tuple(made.thefts),
        benign=tuple(made.benign),
        flows=tuple(made.flows),
    )


def _releases(weights: tuple[Checkpoint, ...], count: int) -> tuple[Checkpoint, ...]:
    """The small models, and so many releases of the largest: thefts of one month have a target each."""
    *small, large = weights
    return (
        *small,
        *(
            replace(
                large,
                name=f"{large.name}-r{number:02d}",
                objects=tuple(
                    replace(item, key=item.key.replace(large.name, f"{large.name}-r{number:02d}"))
                    for item in large.objects
                ),
            )
            for number in range(1, count + 1)
        ),
    )


def _services(made: _Month, day_s: float, day: int) -> None:
    """Backup every night, conversion and roll-out once a week, a storm of restarts once a week."""
    backup = made.run(BACKUP, "backup-checkpoints", day_s + 2 * HOUR_S, 3 * HOUR_S)
    for source in made.weights[:5]:
        made.read("backup", backup, source)
    if day % 7 == 1:
        made.read("serving rollout", made.run(SERVE, "serve-llm-70b", day_s + 9 * HOUR_S, 8 * HOUR_S),
                  made.largest)  # fmt: skip
    if day % 7 == 2:
        convert = made.run(made.people[0], "convert-export", day_s + 10 * HOUR_S, HOUR_S)
        made.read("conversion", convert, made.largest)
    if day % 7 == 3:
        for attempt in range(1, 13):
            again = made.run(
                made.people[1], "train-llm-70b", day_s + (6 + attempt) * HOUR_S, 1800, attempt
            )
            made.read("restart storm", again, made.largest)


def _person(made: _Month, person: User, day_s: float, day: int) -> None:
    """A day of one person: perhaps jobs that load small models, a look, a shard on a login node."""
    random = made.random
    if random.random() < JOB_DAY:
        kind = SMALL_JOBS[int(random.integers(3))]
        start_s = day_s + random.uniform(7, 20) * HOUR_S
        for _ in range(4 if kind == "eval-sweep" else 1):
            attempt = made.run(person, kind, start_s, random.uniform(600, 7200))
            made.read(kind, attempt, made.weights[int(random.integers(2))])
    if random.random() < PEEK_DAY:
        source = made.largest
        objects = (source.objects[-1], source.shards[0])
        _look(made, person, source, objects, day, 8 * MIB, 2)
    if random.random() < SHARD_DAY:
        source = made.largest
        shard = source.shards[int(random.integers(len(source.shards)))]
        _look(made, person, source, (shard,), day, SHARD, None)


def _look(
    made: _Month, person: User, source: Checkpoint, objects: tuple[Object, ...], day: int, part: int,
    limit: int | None,
) -> None:  # fmt: skip
    network = "10.20.250" if day < CHANGE_OF_NAT_DAY else "10.20.251"
    start_s = START_S + day * DAY_S + made.random.uniform(8, 18) * HOUR_S
    transfer = Transfer(
        adhoc_principal(person.name),
        f"{network}.7",
        LOADER,
        objects,
        start_s,
        20.0,
        part,
        limit=limit,
    )
    note = "far below any share that matters"
    made.benign.append(
        Benign("look outside a job", transfer.principal, None, source.name, transfer, note)
    )


def _steal(made: _Month, each: int) -> None:
    """Bulk (P1, five times as many), 28 days (P2), five to eight principals (P3), inside a job (P15)."""
    order = [made.people[n] for n in made.random.permutation(np.arange(2, len(made.people)))]
    number = 0
    for path, crew, times in (("P1", 1, BULK_TIMES), ("P2", 1, 1), ("P3", 0, 1), ("P15", 1, 1)):
        for _ in range(each * times):
            size = crew or int(made.random.integers(5, 9))
            thieves, order = order[:size], order[size:]
            target = made.weights[2 + number]
            for transfer in _transfers(made, path, thieves, target):
                made.thefts.append(Theft(path, target, transfer, number))
            number += 1


def _transfers(
    made: _Month, path: str, thieves: Sequence[User], target: Checkpoint
) -> Iterator[Transfer]:
    shards, random, days = target.shards, made.random, made.fleet.days
    if path == "P1":
        start_s = START_S + (int(random.integers(15, days)) + random.uniform(0, 0.7)) * DAY_S
        yield _theft(thieves[0], shards, start_s, random.uniform(0.2, 5) * HOUR_S)
    elif path == "P2":
        for day in range(days):
            mine = shards[day * len(shards) // days : (day + 1) * len(shards) // days]
            if mine:
                yield _theft(thieves[0], mine, _night(made, day), 900)
    elif path == "P3":
        first = int(random.integers(1, days - 7))
        for number, shard in enumerate(random.permutation(np.arange(len(shards)))):
            day = first + number * 6 // len(shards)
            yield _theft(thieves[number % len(thieves)], (shards[shard],), _night(made, day), 300)
    else:
        yield _inside(made, thieves[0], target)


def _night(made: _Month, day: int) -> float:
    return START_S + day * DAY_S + made.random.uniform(0.5, 6) * HOUR_S


def _theft(who: User, objects: Sequence[Object], start_s: float, seconds: float) -> Transfer:
    """Half of the thieves use a tool and a place of their own, half look like everybody."""
    known = who.uid % 2 == 0
    ip = "10.20.250.7" if known else f"203.0.113.{who.uid % 250}"
    return Transfer(adhoc_principal(who.name), ip, LOADER if known else "rclone/v1.68.2",
                    tuple(objects), start_s, seconds, SHARD)  # fmt: skip


def _inside(made: _Month, who: User, target: Checkpoint) -> Transfer:
    """A lawful job reads the whole and its node sends it on to a place nobody used before."""
    day = int(made.random.integers(15, made.fleet.days))
    start_s = START_S + day * DAY_S + made.random.uniform(7, 16) * HOUR_S
    job = made.run(who, "finetune", start_s, 3 * HOUR_S)
    transfer = _whole(load(made.fleet, job, target, 900.0))
    share = made.random.uniform(0.25, 1.0)  # compressed or quantised before it is sent
    away = f"198.51.100.{who.uid % 250}"
    for part in range(6):
        begin_s = transfer.start_s + 900 + part * 1200
        sent_bytes = int(share * target.size_bytes / 6)
        made.flows.append(Flow(transfer.ip, away, begin_s, 1100, sent_bytes))
    return transfer
