"""Rows of the tables that objects of Kubernetes give, gathered record by record.

Objects are nested and few compared with telemetry: 4,000 pods a second of CPU, with their events and
attempts, are read and gathered in Python (measured on a list of 20,000).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from fleetmark.table import TYPES, Table

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.node_event import NODE_EVENT
from ..tables.node_state import NODE_STATE
from ..tables.queue_event import QUEUE_EVENT
from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ..tables.quota import QUOTA

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (JOB_ATTEMPT, QUEUE_EVENT, QUEUE_SNAPSHOT, QUOTA, NODE_STATE, NODE_EVENT)
}
# Bookkeeping: not among the columns that `field_count` counts.
UNCOUNTED = frozenset({"line_no", "field_count", "source"})


class Rows:
    """Rows by table; a later row of the same grain replaces an earlier one."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {n: {} for n in TABLES}

    def add(self, table: str, line_no: int, values: Mapping[str, Any]) -> None:
        """Take a row; the cluster and `field_count` are added."""
        row = {"line_no": line_no, "cluster": self.cluster, **values}
        contract = TABLES[table]
        if "field_count" in contract.column_names:
            row["field_count"] = sum(v is not None for k, v in row.items() if k not in UNCOUNTED)
        self._rows[table][tuple(row.get(name) for name in contract.grain)] = row

    def count(self) -> int:
        """Rows so far, of all tables."""
        return sum(len(rows) for rows in self._rows.values())

    def frames(self) -> dict[str, pl.DataFrame]:
        """The rows as frames, of the tables that have any."""
        return {name: _frame(TABLES[name], list(rows.values()))
                for name, rows in self._rows.items() if rows}  # fmt: skip


def _frame(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    present = {name for row in rows for name in row}
    schema = {"line_no": pl.Int64()} | {
        c.name: TYPES[c.type] for c in table.columns if c.name in present
    }
    return pl.DataFrame(rows, schema=schema, strict=False)
