"""Whether Fleetmark itself can be relied on: what was read, refused, lost, late, or never judged."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from ._board import board
from ._panels import ANY_IS_BAD, LOW_IS_BAD, About, Panel, figure, lines, rows

DETECTORS = """SELECT count(*) FILTER (WHERE status = 'not_evaluable') AS blind, avg((status = 'evaluated')::INT) AS coverage_ratio
FROM detector_status"""

AGE = """SELECT ${__timeTo} / 1000.0 - epoch(max(ingested_at)) AS newest_read_age_s, avg(finished::INT) AS coverage_ratio
FROM ingest_file"""

REFUSED = """SELECT sum(reject_count) / sum(line_count) AS refused_ratio, sum(settled_bytes) / sum(content_bytes) AS coverage_ratio
FROM ingest_file"""

STATUS = """SELECT detector, status, reason, finding_count, evaluated_at FROM detector_status
ORDER BY status = 'evaluated', finding_count DESC, detector LIMIT 500"""

SOURCES = """SELECT source, count(*) AS files, sum(line_count)::BIGINT AS records, sum(row_count)::BIGINT AS added, sum(repeat_count)::BIGINT AS repeated,
       sum(reject_count)::BIGINT AS refused, sum(skipped_count)::BIGINT AS skipped, sum(content_bytes) AS content_bytes,
       max(ingested_at) AS last_read, sum(settled_bytes) / sum(content_bytes) AS coverage_ratio
FROM ingest_file GROUP BY source
ORDER BY refused DESC, source LIMIT 200"""

READ_HOURS = """SELECT date_trunc('hour', ingested_at) AS hour_ts, source, sum(row_count)::BIGINT AS added,
       sum(settled_bytes) / sum(content_bytes) AS coverage_ratio
FROM ingest_file WHERE $time(ingested_at)
GROUP BY ALL ORDER BY hour_ts, source"""

REJECTS = """SELECT source, reason, count(*) AS records, any_value(path) AS example_path, min(line_no) AS example_line
FROM reject GROUP BY source, reason ORDER BY records DESC, source, reason LIMIT 200"""

STREAMS = """SELECT input, topic, partition, source, message_count, row_count, reject_count, lost_count, committed_at,
       1 - lost_count / nullif(message_count + lost_count, 0) AS coverage_ratio
FROM stream_position ORDER BY lost_count DESC, committed_at, input, topic, partition LIMIT 500"""

SEEN = """SELECT day_ts, cluster, sum(minute_covered_count) / nullif(sum(minute_expected_count), 0) AS coverage_ratio
FROM coverage_gpu_day WHERE $time(day_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY day_ts, cluster"""

SILENT = """SELECT day_ts, cluster, node, gpu_uuid, minute_expected_count, minute_seen_count, coverage_ratio
FROM coverage_gpu_day
WHERE $time(day_ts) AND $filter(cluster) AND minute_expected_count > 0 AND coverage_ratio < 0.95
ORDER BY day_ts DESC, coverage_ratio, node, gpu_uuid LIMIT 500"""

ALERTS = """SELECT channel, status, count(*) AS alerts, max(attempt_count) AS most_attempts, max(attempted_at) AS last_attempt, any_value(error) AS error
FROM alert_delivery GROUP BY channel, status ORDER BY status = 'delivered', channel LIMIT 200"""

UNMET = """SELECT judged_at, table_name, source, scope, expectation, severity, observed, wanted FROM contract_result
WHERE NOT success AND $time(judged_at)
ORDER BY severity, judged_at DESC, table_name, source, scope, expectation LIMIT 500"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-pipeline`."""
    return board(
        "fleetmark-pipeline",
        "Fleetmark: pipeline health",
        "What was read, refused, lost or late, and which detectors could not judge.",
        [*_figures(), *_reading(), *_seeing()],
    )


def _figures() -> list[Panel]:
    return [
        figure("Detectors that cannot judge",
               About("detector_status", ("status",), "Coverage: share of the detectors that could."), DETECTORS,
               steps=ANY_IS_BAD, width=8),
        figure("Since anything was read",
               About("ingest_file", ("ingested_at",), "Up to the end of the range. Coverage: share of the files read to their end."),
               AGE, width=8),
        figure("Records refused",
               About("ingest_file", ("reject_count", "line_count"), "Coverage: share of the bytes in complete records."),
               REFUSED, width=8),
    ]  # fmt: skip


def _reading() -> list[Panel]:
    counts = (
        "line_count",
        "row_count",
        "repeat_count",
        "reject_count",
        "skipped_count",
        "settled_bytes",
    )
    settled = "Coverage: share of the bytes in complete records."
    return [
        rows("Detectors", About("detector_status", ("status", "reason", "finding_count")), STATUS, width=12),
        rows("Sources, most refused first", About("ingest_file", counts, settled), SOURCES, width=12),
        lines("Rows added per hour of reading", About("ingest_file", ("row_count", "ingested_at"), settled), READ_HOURS),
        rows("Why records were refused", About("reject", ("reason",), "All of the store."), REJECTS, width=12, height=9),
        rows("Streams, most lost first",
             About("stream_position", ("message_count", "lost_count"), "Coverage: messages read of those that were there."),
             STREAMS, width=12, height=9),
        rows("Alerts by channel", About("alert_delivery", ("status", "attempt_count")), ALERTS, width=12, height=9),
        rows("Data contracts not met, errors first",
             About("contract_result", ("expectation", "severity", "observed", "wanted"), "As Great Expectations judged them; up to 500."), UNMET),
    ]  # fmt: skip


def _seeing() -> list[Panel]:
    minutes = ("minute_expected_count", "minute_seen_count", "coverage_ratio")
    return [
        lines("GPU minutes seen", About("coverage_gpu_day", minutes), SEEN),
        rows("GPUs seen less than expected",
             About("coverage_gpu_day", minutes, "Below 95 % of the minutes of a day. Up to 500."), SILENT,
             shaded={"coverage_ratio": LOW_IS_BAD}, width=12, height=9),
    ]  # fmt: skip
