"""The fleet at a glance: what to act on first, useful work, and how much of it was seen."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from ._board import board
from ._panels import ANY_IS_BAD, LOW_IS_BAD, About, Panel, figure, lines, rows

SEVERE = """SELECT count(*) FILTER (WHERE severity IN ('critical', 'high') AND $time(detected_at)) AS findings,
       (SELECT avg((status = 'evaluated')::INT) FROM detector_status) AS coverage_ratio
FROM finding"""

TO_ACT = """WITH newest AS (
    FROM node_health WHERE $time(day_ts) AND $filter(cluster)
    QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster))
SELECT count(*) FILTER (WHERE state = 'act') AS nodes, avg(coverage_ratio) AS coverage_ratio FROM newest"""

GOODPUT = """SELECT sum(goodput_lower_ratio * allocated_gpu_s) / sum(allocated_gpu_s) AS at_least_ratio,
       sum(goodput_upper_ratio * allocated_gpu_s) / sum(allocated_gpu_s) AS at_most_ratio,
       sum(coverage_ratio * allocated_gpu_s) / sum(allocated_gpu_s) AS coverage_ratio
FROM goodput_day WHERE $time(day_ts) AND $filter(cluster) AND allocated_gpu_s > 0"""

MFU = """SELECT sum(mfu_ratio * gpu_s) / sum(gpu_s) AS mfu_ratio,
       sum(coverage_ratio * gpu_s) / sum(gpu_s) AS coverage_ratio
FROM mfu_day
WHERE $time(day_ts) AND $filter(cluster) AND gpu_model = 'all' AND mfu_ratio IS NOT NULL AND gpu_s > 0"""

NODES = """SELECT day_ts, cluster, rank_in_cluster AS place_in_line, node, state, action, reason, worst_gpu_uuid AS gpu_uuid,
       array_to_string(job_ids, ', ') AS jobs, gpu_h_at_stake AS at_stake_gpu_h, since_ts, is_repeat_offender,
       coverage_ratio
FROM node_health
WHERE $time(day_ts) AND $filter(cluster)
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster) AND state IN ('act', 'watch', 'unknown')
ORDER BY list_position(['act', 'watch', 'unknown'], state), cluster, rank_in_cluster
LIMIT 100"""

# Findings of the fleet belong to clusters that telemetry may not know (accounts, regions), so the
# variable does not filter them.
FINDINGS = """SELECT severity, score, kind, detector, detected_at, start_ts, end_ts, array_to_string(cluster, ',') AS cluster,
       node[1] AS node, job_id[1] AS job_id, gpu_uuid[1] AS gpu_uuid,
       nullif(trim(concat_ws(' ', array_to_string(principal, ','), array_to_string(checkpoint, ','))), '') AS subject,
       lower, upper, evidence
FROM finding
WHERE $time(detected_at)
ORDER BY list_position(['critical', 'high', 'medium', 'low', 'info'], severity), score DESC, detected_at DESC
LIMIT 200"""

GOODPUT_DAYS = """SELECT day_ts, cluster, goodput_lower_ratio AS at_least_ratio, goodput_upper_ratio AS at_most_ratio,
       coverage_ratio
FROM goodput_day WHERE $time(day_ts) AND $filter(cluster)
ORDER BY day_ts, cluster"""

MFU_DAYS = """SELECT day_ts, cluster, gpu_model, mfu_ratio, coverage_ratio
FROM mfu_day WHERE $time(day_ts) AND $filter(cluster) AND $filter(gpu_model)
ORDER BY day_ts, cluster, gpu_model"""

SEEN = """SELECT day_ts, cluster,
       sum(minute_covered_count) / nullif(sum(minute_expected_count), 0) AS coverage_ratio
FROM coverage_gpu_day WHERE $time(day_ts) AND $filter(cluster)
GROUP BY ALL
ORDER BY day_ts, cluster"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-fleet`."""
    return board(
        "fleetmark-fleet",
        "Fleetmark: fleet health",
        "What to act on first, useful work, drag and theft, each figure with its coverage.",
        [*_figures(), *_lists(), *_days()],
    )


def _figures() -> list[Panel]:
    weighted = "Days that begin in the range, weighted by GPU-seconds."
    return [
        figure(
            "High and critical findings",
            About("finding", ("severity",),
                  "Detected in the range, not filtered by cluster. Coverage: share of the detectors that could judge."),
            SEVERE, steps=ANY_IS_BAD,
        ),
        figure(
            "Nodes to act on",
            About("node_health", ("state", "coverage_ratio"), "On the newest day of each cluster."),
            TO_ACT, steps=ANY_IS_BAD,
        ),
        figure(
            "Goodput",
            About("goodput_day", ("goodput_lower_ratio", "goodput_upper_ratio", "coverage_ratio"), weighted),
            GOODPUT, steps=LOW_IS_BAD,
        ),
        figure("MFU", About("mfu_day", ("mfu_ratio", "coverage_ratio"), weighted), MFU),
    ]  # fmt: skip


def _lists() -> list[Panel]:
    return [
        rows(
            "Nodes, worst first",
            About("node_health", ("state", "action", "reason", "gpu_h_at_stake", "coverage_ratio"),
                  "The newest day of each cluster, without nodes that are clear. Up to 100."),
            NODES, height=8,
        ),
        rows(
            "Findings, worst first",
            About("finding", ("score", "severity", "lower", "upper", "evidence"),
                  "Up to 200, detected in the range. Not filtered by cluster. The first of several nodes, jobs and GPUs."),
            FINDINGS, height=11,
        ),
    ]  # fmt: skip


def _days() -> list[Panel]:
    return [
        lines(
            "Goodput, at least and at most",
            About("goodput_day", ("goodput_lower_ratio", "goodput_upper_ratio", "coverage_ratio")),
            GOODPUT_DAYS, width=8,
        ),
        lines("MFU by GPU model", About("mfu_day", ("mfu_ratio", "coverage_ratio")), MFU_DAYS, width=8),
        lines(
            "GPU minutes seen",
            About("coverage_gpu_day", ("minute_covered_count", "minute_expected_count"),
                  "coverage_ratio: covered by expected minutes, summed over the cluster's GPUs."),
            SEEN, width=8,
        ),
    ]  # fmt: skip
