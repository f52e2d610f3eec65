"""kernel_log_day: on which days a node's kernel log was seen, whatever it said."""

from __future__ import annotations

from fleetmark.table import Column, Table

KERNEL_LOG_DAY = Table(
    name="kernel_log_day",
    doc=(
        "UTC days of which some line of a node's kernel log was read, also one that says nothing of "
        "GPUs: on these the log was collected, so that no event means that none was logged. A day "
        "without a row may have had none collected. A quiet kernel prints nothing for days."
    ),
    grain=("cluster", "node", "day_ts"),
    time="day_ts",
    sort=("cluster", "node"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the node belongs to"),
        Column("node", "VARCHAR", "host name as the log gives it"),
        Column("day_ts", "TIMESTAMP", "start of the UTC day"),
    ),
)
