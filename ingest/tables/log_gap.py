"""log_gap: what a log says of itself that it lost."""

from fleetmark.table import Column, Table

LOG_GAP = Table(
    name="log_gap",
    doc="Spans in which a log says that it lost records: skipped windows, overflows, switched off.",
    grain=("cluster", "source", "log_stream", "ts"),
    time="ts",
    columns=(
        Column("cluster", "VARCHAR", "cluster (or account) the log belongs to"),
        Column("source", "VARCHAR", "log format: vpc_flow, auditd, lustre_changelog, zeek_conn"),
        Column("log_stream", "VARCHAR", "interface, host or metadata target the loss concerns"),
        Column("ts", "TIMESTAMP", "start of the span, or when the loss was noticed"),
        Column("end_ts", "TIMESTAMP", "its end; NULL: not told"),
        Column("lost_count", "BIGINT", "records lost; NULL: not told", "count"),
        Column("reason", "VARCHAR", "as the log gives it"),
    ),
)
