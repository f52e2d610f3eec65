"""Rows that answers of NCCL's monitor become, whichever form they have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from ._operation_names import OPERATIONS


class BadAnswerError(ValueError):
    """An answer, or line, that gives no row; the text says why."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What holds for every rank of one answer."""

    ts: datetime
    line_no: int
    comm_lib_version: str | None = None
    collect_s: float | None = None
    timeout_count: int | None = None

    def columns(self) -> dict[str, Any]:
        return {
            "ts": self.ts,
            "line_no": self.line_no,
            "comm_lib_version": self.comm_lib_version,
            "collect_s": self.collect_s,
            "timeout_count": self.timeout_count,
        }


@dataclass(slots=True)
class Rows:
    """Rows by table. `who` are cluster, job_id and attempt; `zone` that of the machine's clock."""

    zone: str | None
    who: Mapping[str, Any]
    states: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    identities: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def extend(self, other: Rows) -> None:
        """Take over another's rows."""
        self.states += other.states
        self.counts += other.counts
        self.identities += other.identities
        self.events += other.events

    def local_time(self, text: str) -> datetime:
        """A time as the monitor writes it, local and without zone, in UTC. Raises BadAnswerError."""
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise BadAnswerError(f"timestamp {text[:40]!r} is no time") from None
        if time.tzinfo is not None:
            return time.astimezone(UTC).replace(tzinfo=None)
        if self.zone is None:
            raise BadAnswerError(
                "the time has no zone: state that of the machine with --set tz=UTC or "
                "--set tz=Europe/Berlin"
            )
        zone = ZoneInfo(self.zone)
        early, late = (time.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if early != late:
            raise BadAnswerError(f"{text} stands twice, or not at all, in time zone {self.zone}")
        return early.replace(tzinfo=None)

    def add_rank(self, snapshot: Snapshot, rank: Mapping[str, Any]) -> None:
        """A rank's state, and who it is."""
        self.states.append({**self.who, **snapshot.columns(), "rank_count": 1, **rank})
        if rank.get("node") is None and rank.get("pid") is None:
            return
        keep = ("comm_id", "comm_rank", "n_ranks", "cuda_device", "nvml_device")
        self.identities.append({
            **self.who, **{name: rank.get(name) for name in keep},
            "origin": "nccl_ras", "line_no": snapshot.line_no, "stated_ts": snapshot.ts,
            "node": rank.get("node") or "unknown",
            "pid": -1 if rank.get("pid") is None else rank["pid"],
        })  # fmt: skip

    def add_counts(
        self,
        snapshot: Snapshot,
        comm: Mapping[str, Any],
        rank: Mapping[str, Any],
        counts: Mapping[str, int],
    ) -> None:
        """How far a rank, or several that the answer does not name, got per function."""
        keep = ("comm_rank", "rank_count", "node", "pid", "nvml_device")
        for function, count in counts.items():
            self.counts.append({
                **self.who, "rank_count": 1, **{n: rank[n] for n in keep if n in rank},
                "ts": snapshot.ts, "line_no": snapshot.line_no, "comm_id": comm["comm_id"],
                "n_ranks": comm.get("n_ranks"), "function": function, "op_count": count,
            })  # fmt: skip

    def add_event(self, line_no: int, event: str, **columns: Any) -> None:  # noqa: ANN401 - columns
        """A fact that concerns a process rather than a communicator."""
        message = str(columns.pop("message", ""))[:1024]
        self.events.append({
            **self.who, "line_no": line_no, "log_line": line_no, "event_no": 1,
            "event": event.lower(), "message": message, **columns,
        })  # fmt: skip


def function_name(name: str) -> str:
    """AllReduce as all_reduce; names not known keep their letters."""
    squeezed = name.lower().replace("_", "")
    return OPERATIONS.get(squeezed, re.sub(r"[^a-z0-9]", "_", name.lower()))
