"""Who reads the weights, and whether the logs that say so can be relied on."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.common import GraphDrawStyle

from ._board import board
from ._panels import ANY_IS_BAD, About, Panel, Steps, figure, lines, rows

READ: Steps = ((None, "transparent"), (0.1, "yellow"), (0.5, "orange"), (0.9, "red"))

SEVERE = """SELECT count(*) FILTER (WHERE domain = 'security' AND severity IN ('critical', 'high') AND $time(detected_at)) AS findings,
       (SELECT avg((status = 'evaluated')::INT) FROM detector_status) AS coverage_ratio
FROM finding"""

# The share of the largest read of a checkpoint that no job covers.
UNCOVERED = """SELECT max(uncovered_lower_ratio) AS at_least_ratio, max(uncovered_upper_ratio) AS at_most_ratio,
       1 - sum(unknown_byte_count) / sum(uncovered_request_count) AS coverage_ratio
FROM checkpoint_read_day WHERE $time(day_ts) AND $filter(cluster)"""

LOGS = """SELECT sum(missing_count)::BIGINT AS records_missing, avg(known_bytes_ratio) AS coverage_ratio
FROM log_coverage_hour WHERE $time(hour_ts) AND $filter(cluster)"""

FINDINGS = """SELECT severity, score, kind, detector, detected_at, start_ts, end_ts, array_to_string(principal, ', ') AS principal,
       array_to_string(checkpoint, ', ') AS checkpoint, array_to_string(bucket, ', ') AS bucket, array_to_string(ip, ', ') AS ip,
       node[1] AS node, job_id[1] AS job_id, lower, upper, evidence
FROM finding
WHERE domain = 'security' AND $time(detected_at)
ORDER BY list_position(['critical', 'high', 'medium', 'low', 'info'], severity), score DESC, detected_at DESC
LIMIT 200"""

CHECKPOINTS = """SELECT day_ts, cluster, principal, checkpoint, family, sensitivity, checkpoint_bytes, uncovered_lower_ratio, uncovered_upper_ratio,
       covered_upper_bytes, crossed_ts, array_to_string(ips, ', ') AS ips,
       1 - unknown_byte_count / nullif(uncovered_request_count, 0) AS coverage_ratio
FROM checkpoint_read_day
WHERE $time(day_ts) AND $filter(cluster)
ORDER BY uncovered_upper_ratio DESC NULLS LAST, day_ts DESC, principal, checkpoint
LIMIT 200"""

PRINCIPALS = """SELECT date_trunc('hour', ts) AS hour_ts, coalesce(principal, 'unknown') AS principal, sum(sent_bytes) AS sent_bytes
FROM storage_read WHERE $time(ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts, principal LIMIT 10000"""

PRINCIPAL_COVERAGE = """SELECT date_trunc('hour', ts) AS hour_ts, count(sent_bytes) / count(*) AS coverage_ratio
FROM storage_read WHERE $time(ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts LIMIT 10000"""

RECORDS = """SELECT hour_ts, source, sum(record_count)::BIGINT AS records, avg(known_bytes_ratio) AS coverage_ratio
FROM log_coverage_hour WHERE $time(hour_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts, source"""

STREAMS = """SELECT cluster, source, log_stream, sum(record_count)::BIGINT AS records, sum(missing_count)::BIGINT AS missing,
       sum(gap_count)::BIGINT AS gaps, max(longest_delay_s) AS longest_delay_s, max(last_ts) AS last_ts,
       avg(known_bytes_ratio) AS coverage_ratio
FROM log_coverage_hour WHERE $time(hour_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY missing DESC NULLS LAST, gaps DESC NULLS LAST, cluster, source, log_stream LIMIT 500"""

FOLDERS = """SELECT cluster, bucket, folder, max(throughput_bytes_per_s) AS peak_bytes_per_s, sum(read_bytes) AS read_bytes,
       max(peak_metadata_per_s) AS peak_metadata_per_s, sum(throttled_count)::BIGINT AS throttled,
       avg(known_bytes_ratio) AS coverage_ratio
FROM dataset_throughput_hour WHERE $time(hour_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY read_bytes DESC NULLS LAST, cluster, bucket, folder LIMIT 200"""

EVENTS = """SELECT ts, cluster, principal, event_class, action, target_kind, target, is_cross_account, ip, status, error
FROM storage_event
WHERE NOT coalesce(is_read_only, false) AND $time(ts) AND $filter(cluster)
ORDER BY ts DESC, event_id LIMIT 500"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-storage`."""
    return board(
        "fleetmark-storage",
        "Fleetmark: storage access and findings",
        "Who reads the weights with and without a job, and what the access logs do not tell.",
        [*_figures(), *_reads(), *_logs()],
        since="now-7d",
    )


def _figures() -> list[Panel]:
    return [
        figure("High and critical findings of security",
               About("finding", ("severity",),
                     "Detected in the range, not filtered by cluster. Coverage: share of the detectors that could judge."),
               SEVERE, steps=ANY_IS_BAD, width=8),
        figure("Most of a checkpoint read without a job",
               About("checkpoint_read_day", ("uncovered_lower_ratio", "uncovered_upper_ratio"),
                     "The largest of the range. Coverage: share of such reads whose size the log tells."), UNCOVERED, width=8),
        figure("Records missing from numbered logs",
               About("log_coverage_hour", ("missing_count", "known_bytes_ratio"), "Coverage: records that tell their bytes."),
               LOGS, steps=ANY_IS_BAD, width=8),
    ]  # fmt: skip


def _reads() -> list[Panel]:
    bounds = ("uncovered_lower_ratio", "uncovered_upper_ratio", "crossed_ts")
    return [
        rows("Findings of security, worst first",
             About("finding", ("score", "severity", "lower", "upper", "evidence"), "Up to 200, detected in the range."),
             FINDINGS),
        rows("Checkpoints read without a job, most first",
             About("checkpoint_read_day", bounds, "Up to 200. Coverage: share of such reads whose size the log tells."),
             CHECKPOINTS, shaded={"uncovered_upper_ratio": READ}),
        lines("Bytes read, by principal",
              About("storage_read", ("sent_bytes",), "Up to 10,000 points. Coverage: share of the reads whose size a log tells."),
              PRINCIPALS, coverage=PRINCIPAL_COVERAGE, style=GraphDrawStyle.BARS, stacked=True, width=24),
    ]  # fmt: skip


def _logs() -> list[Panel]:
    return [
        lines("Records per log and hour",
              About("log_coverage_hour", ("record_count", "known_bytes_ratio"), "Coverage: records that tell their bytes."), RECORDS),
        rows("Streams of the logs, most missing first",
             About("log_coverage_hour", ("missing_count", "gap_count", "longest_delay_s", "known_bytes_ratio"), "Up to 500."),
             STREAMS, width=12, height=9),
        rows("Folders, most read first",
             About("dataset_throughput_hour", ("throughput_bytes_per_s", "peak_metadata_per_s", "known_bytes_ratio"), "Up to 200."),
             FOLDERS, width=12),
        rows("Changes of access, newest first", About("storage_event", ("event_class", "is_cross_account"), "Up to 500."),
             EVENTS, width=12),
    ]  # fmt: skip
