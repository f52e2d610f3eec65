"""Hang attribution from Flight Recorder dumps: the public injections, and constructed stops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, parse_file, source_rows

CATALOG = load_catalog()
SAMPLES = Path(__file__).parent.parent / "samples" / "collectives" / "fr_traces"
STOP = datetime(2026, 3, 1, 12, 0, 0)  # noqa: DTZ001 - all times are UTC without zone
JOB = {"cluster": "c", "job_id": "j", "attempt": 1}


def verdicts(frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """`hang_rank` over `collective` and `collective_group`, through the models between."""
    known = {
        n: complete(CATALOG.tables[n], frames.get(n, CATALOG.tables[n].empty()))
        for n in ("collective", "collective_group", "nccl_log_event")
    }
    for name in ("collective_group_lag", "collective_mismatch", "hang_rank"):
        model = CATALOG.models[name]
        known[name] = compute(CATALOG, model, {n: known[n] for n in model.inputs}, {})
    return known["hang_rank"].sort("rank")


def culprits(frames: dict[str, pl.DataFrame]) -> dict[int, str]:
    accused = verdicts(frames).filter(pl.col("verdict") == "culprit")
    return dict(accused.select("rank", "cause").iter_rows())


@pytest.mark.parametrize(
    ("folder", "cause"), [("gpu_error_1st", "dead_gpu"), ("lock_gil_1st", "blocked_host")]
)
def test_every_injected_rank_is_found_and_nobody_else(folder: str, cause: str) -> None:
    """Truth is the injector's own log beside the dumps."""
    source = CATALOG.sources["flight_recorder"]
    rows = [
        source_rows(source, parse_file(source, path, job_id="j"))[0]
        for path in sorted((SAMPLES / folder).glob("_dump_*"))
    ]
    frames = {n: pl.concat(r[n] for r in rows) for n in ("collective", "collective_group")}
    log = (SAMPLES / folder / "fault_injection.log").read_text(encoding="utf-8")
    injected = {int(rank) for rank in re.findall(r"^Rank (\d+), fault_type", log, re.MULTILINE)}
    assert len(injected) == 2
    assert culprits(frames) == dict.fromkeys(injected, cause)


def groups(*rows: tuple[int, str, Sequence[int], int | None, int | None]) -> pl.DataFrame:
    """`collective_group` rows: rank, group, its ranks, last enqueued, last completed."""
    return pl.DataFrame(
        [
            {
                **JOB,
                "rank": rank,
                "pg_name": name,
                "pg_size": len(ranks),
                "pg_ranks": list(ranks),
                "last_enqueued_seq": enqueued,
                "last_completed_seq": completed,
            }
            for rank, name, ranks, enqueued, completed in rows
        ],
        schema_overrides={"rank": pl.Int32, "pg_size": pl.Int32, "pg_ranks": pl.List(pl.Int32)},
    )


def entry(rank: int, name: str, seq: int, **fields: Any) -> dict[str, Any]:
    """A pending `collective` row of a group."""
    return {
        **JOB, "rank": rank, "pg_name": name, "pg_size": 4, "collective_seq_id": seq,
        "record_id": seq, "ts": STOP + timedelta(seconds=seq), "operation": "all_reduce",
        "profiling_name": "nccl:all_reduce", "is_p2p": False, "state": "scheduled",
        "input_dtypes": ["Float"], "input_bytes": 4096, "timeout_s": 600.0, **fields,
    }  # fmt: skip


def entries(*rows: dict[str, Any]) -> pl.DataFrame:
    empty = CATALOG.tables["collective"].empty()
    schema = {name: kind for name, kind in empty.schema.items() if any(name in r for r in rows)}
    return pl.DataFrame(list(rows), schema=schema)


def test_only_the_end_of_a_chain_of_waiting_is_accused() -> None:
    """3 stopped; 2 waits for 3 in a pair, so 0 and 1 wait for 2 and 3 in the whole group."""
    world = (0, 1, 2, 3)
    frames = {
        "collective": entries(entry(0, "0", 6)),
        "collective_group": groups(
            (0, "0", world, 6, 5), (1, "0", world, 6, 5), (2, "0", world, 5, 5), (3, "0", world, 5, 5),
            (0, "1", (0, 1), 9, 9), (1, "1", (0, 1), 9, 9), (2, "2", (2, 3), 9, 8), (3, "2", (2, 3), 8, 8),
        ),
    }  # fmt: skip
    assert culprits(frames) == {3: "blocked_host"}
    row = verdicts(frames).row(2, named=True)
    assert (row["verdict"], row["start_ts"]) == ("victim", STOP + timedelta(seconds=6))
    assert row["evidence_ts"] == STOP + timedelta(seconds=606)


def test_a_send_to_a_rank_that_never_came_excuses() -> None:
    """Stage 1 has no group to wait in: only its pending send says that it waits for rank 0."""
    world = (0, 1, 2)
    send = {"is_p2p": True, "operation": "send", "p2p_seq_id": 4}
    frames = {
        "collective": entries(entry(1, "pp", 4, peer_rank=0, **send), entry(2, "0", 6)),
        "collective_group": groups(
            (0, "0", world, 5, 5), (1, "0", world, 5, 5), (2, "0", world, 6, 5),
            (0, "pp", world, 3, 3), (1, "pp", world, 4, 3), (2, "pp", world, 4, 4),
        ),
    }  # fmt: skip
    assert culprits(frames) == {0: "blocked_host"}


def test_a_rank_without_dump_that_the_rest_waits_for() -> None:
    world = (0, 1, 2, 3)
    frames = {
        "collective": entries(entry(0, "0", 6)),
        "collective_group": groups(*((r, "0", world, 6, 5) for r in (0, 1, 2))),
    }
    assert culprits(frames) == {3: "no_dump"}
    assert verdicts(frames)["coverage_ratio"].to_list() == [0.75] * 4


def test_a_rank_without_dump_is_not_accused_when_another_explains_it() -> None:
    world = (0, 1, 2, 3)
    frames = {
        "collective": entries(entry(0, "0", 6)),
        "collective_group": groups(
            (0, "0", world, 6, 5), (1, "0", world, 6, 5), (2, "0", world, 5, 5)
        ),
    }
    assert culprits(frames) == {2: "blocked_host"}


def test_all_entered_and_nobody_finished_accuses_nobody() -> None:
    world = (0, 1, 2, 3)
    frames = {
        "collective": entries(entry(0, "0", 6)),
        "collective_group": groups(*((r, "0", world, 6, 5) for r in world)),
    }
    assert culprits(frames) == {}
    assert set(verdicts(frames)["verdict"]) == {"in_flight"}


def test_a_dump_taken_earlier_than_the_others_accuses_nobody() -> None:
    """Rank 3 was dumped first in a job that ran on: the others finished what it had not begun."""
    world = (0, 1, 2, 3)
    frames = {
        "collective": entries(entry(0, "0", 96)),
        "collective_group": groups(
            *((r, "0", world, 96, 95) for r in (0, 1, 2)), (3, "0", world, 80, 79)
        ),
    }
    assert culprits(frames) == {}
    assert verdicts(frames)["verdict"].to_list()[3] == "not_evaluable"


@pytest.mark.parametrize(
    "odd", [{"operation": "broadcast", "profiling_name": "nccl:broadcast"}, {"input_bytes": 2048}]
)
def test_a_rank_that_calls_something_else_is_named(odd: dict[str, Any]) -> None:
    world = (0, 1, 2, 3)
    calls = [entry(r, "0", 6, **(odd if r == 1 else {})) for r in world]
    frames = {
        "collective": entries(*calls),
        "collective_group": groups(*((r, "0", world, 6, 5) for r in world)),
    }
    assert culprits(frames) == {1: "collective_mismatch"}


def test_uneven_gathers_are_no_mismatch() -> None:
    world = (0, 1, 2, 3)
    uneven = {"operation": "all_gather", "profiling_name": "nccl:all_gather"}
    calls = [entry(r, "0", 6, **uneven, input_bytes=1024 * (r + 1)) for r in world]
    frames = {
        "collective": entries(*calls),
        "collective_group": groups(*((r, "0", world, 6, 5) for r in world)),
    }
    assert culprits(frames) == {}


def test_dumps_without_progress_of_groups_are_read_from_their_entries() -> None:
    """Format 1.x: no state of groups, no members. Group 0 is the whole job; 1 is another each."""
    rows = [
        entry(rank, name, seq, pg_id=int(name), pg_size=None, state=state)
        for rank in (0, 1, 2)
        for name in ("0", "1")
        for seq, state in ((5, "completed"), (6, "scheduled"))
        if (rank, seq) != (2, 6)
    ]
    frames = {
        "collective": entries(*rows),
        "collective_group": pl.DataFrame(
            [{**JOB, "rank": r, "pg_name": n, "pg_id": int(n)} for r in (0, 1, 2) for n in "01"],
            schema_overrides={"rank": pl.Int32},
        ),
    }
    assert culprits(frames) == {2: "blocked_host"}
    assert verdicts(frames)["group_count"].to_list() == [1, 1, 1]


def test_watchdog_lines_of_a_job_without_dumps() -> None:
    """Rank 2's device has not finished number 6, which the other two have finished."""
    lines = [
        {
            **JOB,
            "log_name": "job.out",
            "log_line": 2 * rank + n,
            "event_no": 1,
            "event": event,
            "rank": rank,
            "pg_name": "0",
            "last_enqueued_seq": 9,
            "last_completed_seq": 5 if rank == 2 else 6,
            "ts": STOP + timedelta(seconds=600 + rank),
            "duration_s": 600.0,
        }
        for rank in (0, 1, 2)
        for n, event in enumerate(("watchdog_timeout", "watchdog_state"))
    ]
    frame = pl.DataFrame(lines, schema_overrides={"rank": pl.Int32, "event_no": pl.Int32})
    assert culprits({"nccl_log_event": frame}) == {2: "dead_gpu"}
    row = verdicts({"nccl_log_event": frame}).row(0, named=True)
    assert (row["start_ts"], row["evidence_ts"]) == (STOP, STOP + timedelta(seconds=600))
