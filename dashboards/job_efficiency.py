"""Where the GPU-hours of jobs go: the waterfall by cause, MFU, and the jobs that lose most."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.common import GraphDrawStyle

from ._board import board
from ._panels import LOW_IS_BAD, About, Panel, figure, lines, rows

# goodput_cause_day books every GPU-hour under one cause.
HELD = """SELECT sum(gpu_h) AS held_gpu_h,
       sum(gpu_h) FILTER (WHERE evidence <> 'scheduler') / sum(gpu_h) AS coverage_ratio
FROM goodput_cause_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account) AND $filter(job, job_id) AND $filter(gpu_model)"""

PRODUCTIVE = """SELECT sum(gpu_h) FILTER (WHERE cause = 'productive') / sum(gpu_h) AS productive_ratio,
       sum(gpu_h) FILTER (WHERE evidence <> 'scheduler') / sum(gpu_h) AS coverage_ratio
FROM goodput_cause_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account) AND $filter(job, job_id) AND $filter(gpu_model)"""

MFU = """SELECT sum(mfu_ratio * peak_gpu_s) / sum(peak_gpu_s) AS mfu_ratio, avg(coverage_ratio) AS coverage_ratio
FROM job_mfu
WHERE is_default AND NOT is_implausible AND mfu_ratio IS NOT NULL AND peak_gpu_s > 0
  AND $time(day_ts) AND $filter(cluster) AND $filter(job, job_id) AND $filter(gpu_model)"""

CAUSES = """SELECT cause, sum(gpu_h) AS spent_gpu_h, sum(gpu_h) / sum(sum(gpu_h)) OVER () AS share_ratio,
       count(DISTINCT (cluster, job_id)) AS jobs, sum(cost) AS cost, min(currency) AS currency,
       sum(gpu_h) FILTER (WHERE evidence <> 'scheduler') / sum(gpu_h) AS coverage_ratio
FROM goodput_cause_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account) AND $filter(job, job_id) AND $filter(gpu_model)
GROUP BY cause
ORDER BY cause <> 'productive', spent_gpu_h DESC"""

CAUSE_DAYS = """SELECT day_ts, cause, sum(gpu_h) AS spent_gpu_h
FROM goodput_cause_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account) AND $filter(job, job_id) AND $filter(gpu_model)
GROUP BY ALL
ORDER BY day_ts, cause"""

CAUSE_COVERAGE = """SELECT day_ts, sum(gpu_h) FILTER (WHERE evidence <> 'scheduler') / sum(gpu_h) AS coverage_ratio
FROM goodput_cause_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account) AND $filter(job, job_id) AND $filter(gpu_model)
GROUP BY ALL
ORDER BY day_ts"""

JOBS = """SELECT cluster, job_id, min(principal) AS principal, min(account) AS account,
       sum(allocated_gpu_s) / 3600 AS held_gpu_h,
       sum(allocated_gpu_s - goodput_lower_gpu_s) / 3600 AS lost_at_most_gpu_h,
       sum(productive_gpu_s) / sum(allocated_gpu_s) AS productive_ratio,
       sum(straggler_gpu_s + communication_stall_gpu_s) / sum(allocated_gpu_s) AS waiting_ratio,
       sum(lost_work_gpu_s + restart_gpu_s + hang_detection_gpu_s) / sum(allocated_gpu_s) AS interrupted_ratio,
       sum(idle_gpu_s) / sum(allocated_gpu_s) AS idle_ratio,
       sum(unexplained_gpu_s) / sum(allocated_gpu_s) AS unexplained_ratio,
       avg(coverage_ratio) AS coverage_ratio
FROM job_goodput
WHERE $time(day_ts) AND $filter(cluster) AND $filter(team, account) AND $filter(job, job_id) AND allocated_gpu_s > 0
GROUP BY cluster, job_id
ORDER BY lost_at_most_gpu_h DESC NULLS LAST, cluster, job_id
LIMIT 200"""

JOB_MFU = """SELECT day_ts, cluster, job_id, attempt, gpu_model, gpu_count, mfu_ratio, logged_mfu_ratio, hfu_ratio,
       model_tflops, precision, precision_is_assumed, is_implausible, coverage_ratio
FROM job_mfu
WHERE is_default AND $time(day_ts) AND $filter(cluster) AND $filter(job, job_id) AND $filter(gpu_model)
ORDER BY mfu_ratio NULLS LAST, day_ts DESC, cluster, job_id, attempt
LIMIT 200"""

FLEET = """SELECT day_ts, sum(productive_lower_gpu_s) / 3600 AS productive_gpu_h, sum(unproductive_gpu_s) / 3600 AS unproductive_gpu_h,
       sum(inactive_gpu_s) / 3600 AS inactive_gpu_h, sum(unallocated_gpu_s) / 3600 AS unallocated_gpu_h,
       sum(out_of_service_gpu_s) / 3600 AS out_of_service_gpu_h
FROM gpu_hours_waterfall
WHERE $time(day_ts) AND $filter(cluster) AND $filter(gpu_model)
GROUP BY day_ts ORDER BY day_ts"""

FLEET_COVERAGE = """SELECT day_ts, avg(coverage_ratio) AS coverage_ratio
FROM gpu_hours_waterfall
WHERE $time(day_ts) AND $filter(cluster) AND $filter(gpu_model)
GROUP BY day_ts ORDER BY day_ts"""

FINDINGS = """SELECT severity, score, kind, detected_at, start_ts, end_ts, job_id[1] AS job_id, node[1] AS node,
       gpu_uuid[1] AS gpu_uuid, lower, upper, evidence
FROM finding
WHERE domain = 'performance' AND len(job_id) > 0 AND $time(detected_at) AND $overlap(job, job_id)
ORDER BY list_position(['critical', 'high', 'medium', 'low', 'info'], severity), score DESC, detected_at DESC
LIMIT 200"""

SEEN = "Coverage: share of the GPU-hours of which more is known than the scheduler's record."


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-jobs`."""
    return board(
        "fleetmark-jobs",
        "Fleetmark: job efficiency",
        "Where the GPU-hours of jobs go, by cause; MFU; the jobs that lose most.",
        [*_figures(), *_waterfall(), *_jobs()],
    )


def _figures() -> list[Panel]:
    return [
        figure("GPU-hours held", About("goodput_cause_day", ("gpu_h",), SEEN), HELD, width=8),
        figure("Productive share", About("goodput_cause_day", ("gpu_h", "cause"), SEEN), PRODUCTIVE,
               width=8, steps=LOW_IS_BAD),
        figure("MFU", About("job_mfu", ("mfu_ratio", "convention", "coverage_ratio"),
                            "The default convention, weighted by the peak; without implausible figures."),
               MFU, width=8),
    ]  # fmt: skip


def _waterfall() -> list[Panel]:
    waterfall = About("goodput_cause_day", ("cause", "gpu_h", "cost"), SEEN)
    fleet = ("installed_gpu_s", "out_of_service_gpu_s", "unallocated_gpu_s", "inactive_gpu_s",
             "unproductive_gpu_s", "productive_lower_gpu_s", "coverage_ratio")  # fmt: skip
    return [
        rows("Goodput waterfall: GPU-hours by cause", waterfall, CAUSES,
             gauges=("share_ratio",), width=12, height=12),
        lines("GPU-hours by cause and day", waterfall, CAUSE_DAYS, coverage=CAUSE_COVERAGE,
              style=GraphDrawStyle.BARS, stacked=True, height=12),
        lines("Installed GPU-hours of the fleet", About("gpu_hours_waterfall", fleet), FLEET,
              coverage=FLEET_COVERAGE, style=GraphDrawStyle.BARS, stacked=True, width=24),
    ]  # fmt: skip


def _jobs() -> list[Panel]:
    held = ("allocated_gpu_s", "goodput_lower_gpu_s", "productive_gpu_s", "straggler_gpu_s",
            "communication_stall_gpu_s", "lost_work_gpu_s", "idle_gpu_s", "unexplained_gpu_s", "coverage_ratio")  # fmt: skip
    return [
        rows("Jobs, the costliest loss first",
             About("job_goodput", held, "Ratios are shares of the GPU-hours held. Up to 200 jobs."), JOBS),
        rows("MFU of jobs, lowest first",
             About("job_mfu", ("mfu_ratio", "logged_mfu_ratio", "hfu_ratio", "coverage_ratio"), "Up to 200."), JOB_MFU),
        rows("Findings about jobs, worst first",
             About("finding", ("score", "lower", "upper", "evidence"), "Up to 200, detected in the range."), FINDINGS),
    ]  # fmt: skip
