"""Contracts of the tables the core itself writes: what was ingested, what was refused, what was told."""

from __future__ import annotations

from fleetmark.table import Column, Table

# Raised when an older Fleetmark could no longer read the store correctly.
STORE_FORMAT = 1

INGEST_FILE = Table(
    name="ingest_file",
    doc="Every file that was read: how far, and what came of its lines.",
    grain=("file_id",),
    columns=(
        Column("file_id", "VARCHAR", "identity of the file's content and name facts", volatile=True),
        Column("source", "VARCHAR", "the source that read it", null=False),
        Column("path", "VARCHAR", "where it was last seen", null=False, volatile=True),
        Column("facts", "VARCHAR", "JSON object: the options it was read with", null=False),
        Column("head_bytes", "BIGINT", "length of the head", "bytes", null=False, volatile=True),
        Column("head_sha256", "VARCHAR", "hash of the head", null=False, volatile=True),
        Column("content_bytes", "BIGINT", "bytes read, unpacked", "bytes", null=False),
        Column("content_sha256", "VARCHAR", "hash of the bytes read", null=False),
        Column(
            "settled_bytes",
            "BIGINT",
            "bytes up to the end of the last complete record; the rest is read again when the "
            "file has grown",
            "bytes",
            null=False,
        ),
        Column("settled_lines", "BIGINT", "lines in the settled part", "count", null=False),
        Column("line_count", "BIGINT", "lines (or records) read", "count", null=False),
        Column("row_count", "BIGINT", "rows it added to tables", "count", null=False),
        Column("repeat_count", "BIGINT", "rows already known, or newer than one known", "count", null=False),
        Column("reject_count", "BIGINT", "lines in `reject`", "count", null=False),
        Column(
            "skipped_count", "BIGINT", "lines that rightly give no row", "count", null=False
        ),
        Column(
            "tail_row_count", "BIGINT", "rows it added, of the unsettled end",
            "count", null=False, volatile=True,
        ),
        Column(
            "tail_repeat_count", "BIGINT", "rows already known, of the unsettled end",
            "count", null=False, volatile=True,
        ),
        Column(
            "tail_skipped_count", "BIGINT", "skipped lines of the unsettled end",
            "count", null=False, volatile=True,
        ),
        Column("finished", "BOOLEAN", "false while an ingest is (or was cut off) in it", null=False),
        Column("ingested_at", "TIMESTAMP", "when it was last read", null=False, volatile=True),
    ),
)  # fmt: skip

REJECT = Table(
    name="reject",
    doc="Lines and files that could not be read, with the reason. Nothing is dropped in silence.",
    grain=("file_id", "line_no", "reason"),
    columns=(
        Column("source", "VARCHAR", "the source that refused it", null=False),
        Column("path", "VARCHAR", "the file", null=False, volatile=True),
        Column("file_id", "VARCHAR", "ingest_file.file_id", null=False, volatile=True),
        Column("line_no", "BIGINT", "line (or record) from 1; 0 for the whole file", null=False),
        Column("reason", "VARCHAR", "what is wrong", null=False),
        Column("text", "VARCHAR", "the line, cut at 2,000 characters"),
    ),
    sort=("file_id", "line_no"),
)

DETECTOR_STATUS = Table(
    name="detector_status",
    doc="Whether each detector could judge at its last run. Silence is never the answer.",
    grain=("detector",),
    columns=(
        Column("detector", "VARCHAR", "the detector's id"),
        Column("status", "VARCHAR", "evaluated or not_evaluable", null=False),
        Column("reason", "VARCHAR", "for not_evaluable: which input has no rows"),
        Column("finding_count", "BIGINT", "its findings in the store", "count", null=False),
        Column("evaluated_at", "TIMESTAMP", "when it last ran", null=False, volatile=True),
    ),
)

ALERT_DELIVERY = Table(
    name="alert_delivery",
    doc="The outbox: each finding and channel once, with what became of it.",
    grain=("finding_id", "channel"),
    columns=(
        Column("finding_id", "VARCHAR", "finding.finding_id"),
        Column("channel", "VARCHAR", "name of the channel in the settings"),
        Column(
            "status",
            "VARCHAR",
            "pending or delivered; of theft also grouped (its theft was told), supporting (never told by "
            "itself), held (over the budget until there is room) and suppressed",
            null=False,
        ),
        Column("attempt_count", "INTEGER", "deliveries tried", "count", null=False, volatile=True),
        Column("attempted_at", "TIMESTAMP", "last try", volatile=True),
        Column("error", "VARCHAR", "what the last failed try said", volatile=True),
        Column(
            "page_id", "VARCHAR", "finding under which its theft was first told; NULL: no theft"
        ),
        Column("score", "DOUBLE", "strength of all evidence of the theft so far, 0 to 1", "ratio"),
        Column(
            "severity",
            "VARCHAR",
            "of theft: the finding's severity when it was last decided; a page is told again when it grows",
        ),
        Column(
            "told_ts",
            "TIMESTAMP",
            "time at which a page of theft counts against the week's budget: its finding's, or when room was "
            "found for it after it had been held; NULL: no page of theft",
        ),
        Column(
            "entry_number",
            "BIGINT",
            "number of the last entry about it in the evidence ledger; NULL: none yet",
            volatile=True,
        ),
    ),
)

PULL_RANGE = Table(
    name="pull_range",
    doc=(
        "Times for which a service was asked for its data: one row per stretch without a gap that was "
        "pulled, and one per slice that could not be. What lies in no row was not asked for."
    ),
    grain=("endpoint", "selector", "options", "status", "start_ts"),
    columns=(
        Column("endpoint", "VARCHAR", "address of the service"),
        Column("selector", "VARCHAR", "which series were asked for"),
        Column("options", "VARCHAR", "JSON object: the options they were read with"),
        Column("status", "VARCHAR", "pulled or failed"),
        Column("start_ts", "TIMESTAMP", "from, UTC"),
        Column("end_ts", "TIMESTAMP", "until (not included), UTC", null=False),
        Column("reason", "VARCHAR", "why it failed"),
        Column("pulled_at", "TIMESTAMP", "when it was last asked", null=False, volatile=True),
        Column("cursor", "VARCHAR", "where the service goes on from (Kubernetes' resourceVersion)", volatile=True),
    ),
    sort=("endpoint", "start_ts"),
)  # fmt: skip

STREAM_POSITION = Table(
    name="stream_position",
    doc=(
        "How far each partition of a stream has been read: written "
        "in the transaction that writes the rows, so that what is read again after a kill is known."
    ),
    grain=("input", "topic", "partition"),
    columns=(
        Column("input", "VARCHAR", "name of the input in the settings"),
        Column("topic", "VARCHAR", "name of the topic"),
        Column("partition", "INTEGER", "number of the partition"),
        Column("source", "VARCHAR", "the source that reads it", null=False),
        Column("file_id", "VARCHAR", "what its rows and rejects carry as file_id", null=False),
        Column("next_offset", "BIGINT", "offset of the next message", null=False),
        Column("message_count", "BIGINT", "messages read", "count", null=False),
        Column("row_count", "BIGINT", "rows they added to tables", "count", null=False),
        Column("repeat_count", "BIGINT", "rows already known, or newer than one known", "count", null=False),
        Column("reject_count", "BIGINT", "rejects they gave", "count", null=False),
        Column("skipped_count", "BIGINT", "records that rightly give no row", "count", null=False),
        Column("lost_count", "BIGINT", "messages that had left the topic unread", "count", null=False),
        Column("committed_at", "TIMESTAMP", "when it last moved", null=False, volatile=True),
    ),
    partition=("input",),
)  # fmt: skip

OBJECT_SEEN = Table(
    name="object_seen",
    doc="Objects of an object store that have been read, each version once.",
    grain=("input", "object_key", "version"),
    columns=(
        Column("input", "VARCHAR", "name of the input in the settings"),
        Column("object_key", "VARCHAR", "key of the object"),
        Column("version", "VARCHAR", "its ETag; size and time where it has none"),
        Column("size_bytes", "BIGINT", "its size", "bytes", null=False),
        Column("read_at", "TIMESTAMP", "when it was read", null=False, volatile=True),
    ),
    partition=("input",),
)

CONTRACT_PROFILE = Table(
    name="contract_profile",
    doc=(
        "What data contracts were judged on: one row per table, source and scope (a closed hour, a file, or "
        "the whole of a table without time)."
    ),
    grain=("table_name", "source", "scope"),
    columns=(
        Column("table_name", "VARCHAR", "the table"),
        Column("source", "VARCHAR", "the source that read the rows; `model` for computed tables"),
        Column("scope", "VARCHAR", "the hour's start (UTC), the file's file_id, or `all`"),
        Column("scope_kind", "VARCHAR", "hour, file or table", null=False),
        Column("start_ts", "TIMESTAMP", "begin of the hour, or time of the first row"),
        Column("row_count", "BIGINT", "rows", "count", null=False),
        Column("duplicate_count", "BIGINT", "rows beyond the first of each grain", "count"),
        Column("filled_column_count", "INTEGER", "columns with a value in any row", "count"),
        Column("rejected_ratio", "DOUBLE", "refused lines of the files that the rows came from", "ratio"),
        Column("freshness_s", "DOUBLE", "end of the hour (of a file: when it was read) less its last row's time", "s"),
        Column("judged_at", "TIMESTAMP", "when it was computed", volatile=True),
    ),
    time="judged_at",
    period="month",
    sort=("table_name", "source", "scope"),
)  # fmt: skip

CONTRACT_RESULT = Table(
    name="contract_result",
    doc="What became of each expectation of the data contracts, by table, source and scope.",
    grain=("table_name", "source", "scope", "expectation"),
    columns=(
        Column("table_name", "VARCHAR", "the table"),
        Column("source", "VARCHAR", "contract_profile.source"),
        Column("scope", "VARCHAR", "contract_profile.scope"),
        Column("expectation", "VARCHAR", "the measure that was judged, with the column where it has one"),
        Column("severity", "VARCHAR", "error: the rows break their contract; warning: look at them", null=False),
        Column("success", "BOOLEAN", "whether it was met; NULL where there was nothing to judge"),
        Column("observed", "DOUBLE", "the measure"),
        Column("wanted", "VARCHAR", "the range that it must lie in", null=False),
        Column("judged_at", "TIMESTAMP", "when it was judged", volatile=True),
    ),
    time="judged_at",
    period="month",
    sort=("table_name", "source", "scope"),
)  # fmt: skip

STORE_FORMAT_TABLE = Table(
    name="store_format",
    doc="The format version of this store.",
    grain=("format",),
    columns=(Column("format", "INTEGER", "version"),),
)

PARTITION_CHANGE = Table(
    name="partition_change",
    doc="Which days of which table a transaction changed; models recompute from it.",
    grain=("table_name", "cluster", "day"),
    columns=(
        Column("table_name", "VARCHAR", "the table"),
        Column("cluster", "VARCHAR", "cluster; empty for tables without"),
        Column("day", "DATE", "UTC day; NULL for tables without time"),
    ),
)

MODEL_STATE = Table(
    name="model_state",
    doc="Up to which snapshot each model and detector has seen its inputs.",
    grain=("model",),
    columns=(
        Column("model", "VARCHAR", "model or detector"),
        Column("version", "VARCHAR", "hash of definition and parameters"),
        Column("snapshot", "BIGINT", "last snapshot seen"),
    ),
)

PUBLIC_OPERATIONAL = (
    INGEST_FILE, REJECT, PULL_RANGE, STREAM_POSITION, OBJECT_SEEN, DETECTOR_STATUS, ALERT_DELIVERY,
    CONTRACT_PROFILE, CONTRACT_RESULT,
)  # fmt: skip
# In the lake's schema `meta`: of no use to people.
META = (STORE_FORMAT_TABLE, PARTITION_CHANGE, MODEL_STATE)
OPERATIONAL = (*PUBLIC_OPERATIONAL, *META)
