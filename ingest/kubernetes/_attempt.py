"""Rows of `job_attempt` and `queue_snapshot` from what an object tells about a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._resources import Request, model_columns
from ._values import epoch


@dataclass(slots=True)
class Run:
    """One attempt: `key` is the time that names it, `columns` whatever else is known.

    `is_over` without `end`: it ended, and nothing says when.
    """

    job_id: str
    key: datetime
    state: str
    native_state: str | None = None
    submit: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    request: Request | None = None
    allocated: Request | None = None
    nodes: list[str] | None = None
    is_over: bool = False
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def phase(self) -> int:
        if self.is_over or self.end is not None:
            return 2
        return 1 if self.start is not None else 0

    def _observed(self, observed: datetime) -> datetime:
        """Until when it is known to have stood so: not beyond its start where it ended at no known time."""
        if self.is_over and self.end is None:
            return self.start or self.key
        return max(observed, self.end or observed)

    def attempt_row(self, observed: datetime, source: str) -> dict[str, Any]:
        """A row of `job_attempt`."""
        held = (self.allocated or self.request) if self.start is not None else None
        elapsed = None
        if self.start is not None and self.end is not None:
            elapsed = int((self.end - self.start).total_seconds())
        row = {
            "job_id": self.job_id,
            "attempt": epoch(self.key),
            "attempt_ts": self.key.replace(microsecond=0),
            "submit_ts": self.submit,
            "start_ts": self.start,
            "end_ts": self.end,
            "observed_ts": self._observed(observed),
            "phase": self.phase,
            "state": self.state,
            "native_state": self.native_state,
            "elapsed_s": elapsed,
            "node_list": self.nodes if self.start is not None else None,
            "alloc_nodes": len(self.nodes) if self.nodes and self.start is not None else None,
            "source": source,
            **self.columns,
        }
        if self.request is not None:
            row |= self.request.columns("req")
        if held is not None:
            row |= held.columns("alloc") | model_columns(held.models)
            row["gpu_count_source"] = held.gpu_count_source
        if row.get("req_mem_bytes") is not None:
            row["req_mem_scope"] = "job"
        return row

    def snapshot_row(self, ts: datetime, source: str, reason: str | None) -> dict[str, Any]:
        """A row of `queue_snapshot`: the job is in the queue, waiting or running."""
        held = (self.allocated or self.request) if self.start is not None else None
        asked = self.request.columns("req") if self.request is not None else {}
        shown = held or self.request
        kept = (
            "raw_job_id",
            "job_name",
            "account",
            "partition",
            "qos",
            "priority",
            "restart_count",
        )
        return {
            "job_id": self.job_id,
            "ts": ts,
            "attempt": epoch(self.key),
            "task_count": 1,
            "state": self.state,
            "native_state": self.native_state,
            "state_reason": reason,
            "submit_ts": self.submit,
            "start_ts": self.start,
            "req_cpus": asked.get("req_cpus"),
            "req_gpus": asked.get("req_gpus"),
            "alloc_gpus": held.columns("alloc")["alloc_gpus"] if held is not None else None,
            "gpu_count_source": shown.gpu_count_source if shown is not None else None,
            "node_list": self.nodes if self.start is not None else None,
            "source": source,
            **(model_columns(shown.models) if shown is not None else {}),
            **{name: self.columns[name] for name in kept if name in self.columns},
        }
