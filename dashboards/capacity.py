"""Capacity and queues: what is held, free and waited for, how long jobs wait, and who gets what."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from ._board import board
from ._panels import About, Panel, Steps, figure, lines, rows

FAIR: Steps = ((None, "orange"), (0.8, "green"), (1.25, "orange"))

ALLOCATED = """SELECT sum(allocated_gpu_s) / sum(in_service_gpu_s) AS allocated_ratio, avg(coverage_ratio) AS coverage_ratio
FROM gpu_allocation_rate
WHERE gpu_model = '*' AND in_service_gpu_s > 0 AND $time(day_ts) AND $filter(cluster)"""

WAIT = """SELECT max(submit_wait_p90_s) AS submit_wait_p90_s, min(coverage_ratio) AS coverage_ratio
FROM queue_wait
WHERE period = 'day' AND partition = '*' AND qos = '*' AND gpu_model = '*' AND size_bucket = '*'
  AND $time(start_ts) AND $filter(cluster)"""

IDLE = """SELECT sum(idle_while_pending_gpu_s) / 3600 AS idle_gpu_h, avg(coverage_ratio) AS coverage_ratio
FROM idle_while_pending WHERE $time(day_ts) AND $filter(cluster)"""

LEVELS = """SELECT start_ts, cluster, pool, allocated_gpu_count AS allocated, free_gpu_count AS free, pending_gpu_count AS pending
FROM pool_level WHERE pool <> 'any' AND $time(start_ts) AND $filter(cluster)
ORDER BY start_ts, cluster, pool"""

LEVEL_COVERAGE = """SELECT start_ts, min(coverage_ratio) AS coverage_ratio
FROM pool_level WHERE pool <> 'any' AND $time(start_ts) AND $filter(cluster)
GROUP BY start_ts ORDER BY start_ts"""

BACKLOG = """SELECT start_ts, cluster, pool, drain_s, coverage_ratio
FROM backlog WHERE $time(start_ts) AND $filter(cluster)
ORDER BY start_ts, cluster, pool"""

WAITS = """SELECT start_ts, cluster, submit_wait_p50_s, submit_wait_p90_s, submit_wait_p99_s, coverage_ratio
FROM queue_wait
WHERE period = 'day' AND partition = '*' AND qos = '*' AND gpu_model = '*' AND size_bucket = '*'
  AND $time(start_ts) AND $filter(cluster)
ORDER BY start_ts, cluster"""

WAITS_BY_SIZE = """SELECT cluster, size_bucket, sum(attempt_count)::BIGINT AS attempts, max(submit_wait_p50_s) AS worst_p50_s,
       max(submit_wait_p90_s) AS worst_p90_s, max(submit_wait_max_s) AS longest_s,
       sum(started_count) / sum(attempt_count) AS coverage_ratio
FROM queue_wait
WHERE period = 'day' AND partition = '*' AND qos = '*' AND gpu_model = '*' AND size_bucket <> '*'
  AND $time(start_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY worst_p90_s DESC NULLS LAST, cluster, size_bucket LIMIT 200"""

RATES = """SELECT day_ts, cluster, gpu_model, in_service_ratio, coverage_ratio
FROM gpu_allocation_rate WHERE gpu_model <> '*' AND $time(day_ts) AND $filter(cluster) AND $filter(gpu_model)
ORDER BY day_ts, cluster, gpu_model"""

STRANDED = """SELECT cluster, pool, sum(idle_while_pending_gpu_s) / 3600 AS idle_gpu_h, sum(fragmentation_h) AS fragmentation_gpu_h,
       sum(quota_gpu_s) / 3600 AS quota_gpu_h, sum(reservation_gpu_s) / 3600 AS reservation_gpu_h,
       sum(priority_gpu_s) / 3600 AS priority_gpu_h, sum(unknown_gpu_s) / 3600 AS unknown_gpu_h, avg(coverage_ratio) AS coverage_ratio
FROM (SELECT *, (fit_gpu_s + cpu_gpu_s + fraction_gpu_s + gang_gpu_s) / 3600 AS fragmentation_h FROM stranded_gpus)
WHERE $time(day_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY idle_gpu_h DESC NULLS LAST, cluster, pool LIMIT 200"""

SHARES = """SELECT day_ts, cluster, account, deserved_ratio, fair_7d_ratio AS got_by_deserved_7d, fair_30d_ratio AS got_by_deserved_30d,
       used_7d_gpu_s / 3600 AS used_7d_gpu_h, coverage_ratio
FROM fair_share
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account)
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)
ORDER BY got_by_deserved_7d NULLS LAST, cluster, account LIMIT 500"""

QUOTAS = """SELECT day_ts, cluster, queue, flavor, resource, nominal_gpu_count, used_gpu_count, used_ratio, borrowed_gpu_s / 3600 AS borrowed_gpu_h,
       lent_gpu_s / 3600 AS lent_gpu_h, starved_gpu_s / 3600 AS starved_gpu_h, coverage_ratio
FROM quota_use
WHERE $time(day_ts) AND $filter(cluster)
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)
ORDER BY starved_gpu_h DESC NULLS LAST, used_ratio DESC NULLS LAST, cluster, queue LIMIT 500"""

UTILISATION = """SELECT month_ts, cluster, vc, q1_ratio, median_ratio, q3_ratio, coverage_ratio
FROM vc_utilization_month
WHERE month_ts < make_timestamp(${__timeTo} * 1000) AND $filter(cluster)
QUALIFY month_ts = max(month_ts) OVER (PARTITION BY cluster, vc)
ORDER BY median_ratio DESC NULLS LAST, cluster, vc LIMIT 200"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-capacity`."""
    return board(
        "fleetmark-capacity",
        "Fleetmark: capacity and queues",
        "What is held, free and waited for; how long jobs wait and why; who gets what they deserve.",
        [*_figures(), *_levels(), *_waiting(), *_shares()],
    )


def _figures() -> list[Panel]:
    return [
        figure("GPU time in service held by jobs", About("gpu_allocation_rate", ("in_service_ratio", "coverage_ratio")),
               ALLOCATED, width=8),
        figure("Wait, the worst day's 90th percentile",
               About("queue_wait", ("submit_wait_p90_s", "coverage_ratio"), "Coverage: the lowest of these days."), WAIT, width=8),
        figure("Free while others waited", About("idle_while_pending", ("idle_while_pending_gpu_s", "coverage_ratio")),
               IDLE, width=8),
    ]  # fmt: skip


def _levels() -> list[Panel]:
    levels = ("allocated_gpu_count", "free_gpu_count", "pending_gpu_count", "coverage_ratio")
    return [
        lines("GPUs of each pool", About("pool_level", levels), LEVELS, coverage=LEVEL_COVERAGE),
        lines("Time to work off the backlog", About("backlog", ("drain_s", "coverage_ratio")), BACKLOG),
        lines("Held, by GPU model", About("gpu_allocation_rate", ("in_service_ratio", "coverage_ratio")), RATES),
    ]  # fmt: skip


def _waiting() -> list[Panel]:
    waits = ("submit_wait_p50_s", "submit_wait_p90_s", "submit_wait_p99_s", "coverage_ratio")
    return [
        lines("Wait from submission to start", About("queue_wait", waits), WAITS),
        rows("Wait by size of job",
             About("queue_wait", ("size_bucket", *waits), "Worst days. Coverage: started of submitted attempts."),
             WAITS_BY_SIZE, width=12, height=9),
        rows("Why GPUs were free while others waited",
             About("stranded_gpus", ("idle_while_pending_gpu_s", "unknown_gpu_s", "coverage_ratio"),
                   "Fragmentation: no node has enough of what is asked for together."), STRANDED, width=12, height=9),
    ]  # fmt: skip


def _shares() -> list[Panel]:
    return [
        rows("Fair share, the least served first",
             About("fair_share", ("deserved_ratio", "fair_7d_ratio", "fair_30d_ratio", "coverage_ratio"), "The newest day."),
             SHARES, shaded={"got_by_deserved_7d": FAIR}, width=12),
        rows("Quotas", About("quota_use", ("used_ratio", "starved_gpu_s", "coverage_ratio"), "The newest day."), QUOTAS, width=12),
        rows("Utilisation of virtual clusters, quartiles of the newest month",
             About("vc_utilization_month", ("q1_ratio", "median_ratio", "q3_ratio", "coverage_ratio"),
                   "Of each virtual cluster the newest month that begins before the end of the range."),
             UTILISATION, gauges=("median_ratio",)),
    ]  # fmt: skip
