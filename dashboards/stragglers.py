"""Who makes the others wait: slow ranks, what waiting costs, collectives, hangs, and likely causes."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from ._board import board
from ._panels import ANY_IS_BAD, About, Panel, Steps, figure, lines, rows

SLOWER: Steps = ((None, "transparent"), (1.04, "yellow"), (1.1, "orange"), (1.25, "red"))

SLOW_RANKS = """SELECT count(DISTINCT (cluster, job_id, attempt, rank)) FILTER (WHERE verdict = 'slow') AS ranks,
       avg(coverage_ratio) AS coverage_ratio
FROM step_straggler WHERE $time(day_ts) AND $filter(cluster) AND $filter(job, job_id) AND $filter(node)"""

LOST = """SELECT sum(lost_gpu_s) FILTER (WHERE verdict = 'slow') / 3600 AS lost_at_most_gpu_h, avg(coverage_ratio) AS coverage_ratio
FROM step_straggler WHERE $time(day_ts) AND $filter(cluster) AND $filter(job, job_id) AND $filter(node)"""

CULPRITS = """SELECT count(*) FILTER (WHERE verdict = 'culprit') AS ranks, avg(coverage_ratio) AS coverage_ratio
FROM hang_rank WHERE $time(ts) AND $filter(cluster) AND $filter(job, job_id)"""

# Ranks as rows, shaded by how much longer their work takes: the heat map of the newest day.
HEAT = """SELECT day_ts, cluster, job_id, pp_stage, rank, node, gpu_uuid, ratio, ratio_lower, ratio_upper, history_ratio,
       slow_step_ratio, lost_gpu_s / 3600 AS lost_gpu_h, verdict, coverage_ratio
FROM step_straggler
WHERE $time(day_ts) AND $filter(cluster) AND $filter(job, job_id) AND $filter(node)
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster, job_id, attempt)
ORDER BY lost_gpu_s DESC NULLS LAST, ratio DESC NULLS LAST, cluster, job_id, rank
LIMIT 500"""

CAUSES = """SELECT day_ts, cluster, kind, job_id, accused, node, gpu_uuid, effect_ratio, verdict, cause, strength AS strength_ratio,
       array_to_string(other_causes, ', ') AS other_causes, summary, coverage_ratio
FROM root_cause
WHERE $time(day_ts) AND $filter(cluster) AND $filter(job, job_id) AND $filter(node)
ORDER BY day_ts DESC, strength DESC NULLS LAST, incident_id
LIMIT 200"""

WAITING = """SELECT day_ts, op, sum(lost_gpu_s) / 3600 AS waiting_gpu_h
FROM waiting_cost_day WHERE $time(day_ts) AND $filter(cluster) AND $filter(job, job_id)
GROUP BY ALL ORDER BY day_ts, op"""

WAITING_COVERAGE = """SELECT day_ts, avg(coverage_ratio) AS coverage_ratio
FROM waiting_cost_day WHERE $time(day_ts) AND $filter(cluster) AND $filter(job, job_id)
GROUP BY ALL ORDER BY day_ts"""

BUSBW = """SELECT day_ts, cluster, function, median(busbw_p50_bytes_per_s) AS busbw_p50_bytes_per_s, avg(coverage_ratio) AS coverage_ratio
FROM collective_perf_day WHERE $time(day_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY day_ts, cluster, function"""

CHANGES = """SELECT day_ts, cluster, function, size_bytes, n_ranks, node_set, busbw_bytes_per_s, usual_busbw_bytes_per_s,
       ratio AS of_usual_ratio, peer_ratio, peer_count, history_day_count, verdict
FROM busbw_change
WHERE $time(day_ts) AND $filter(cluster)
ORDER BY verdict NOT LIKE 'regressed%', ratio NULLS LAST, day_ts DESC, node_set
LIMIT 200"""

HANGS = """SELECT ts, cluster, job_id, rank, verdict, cause, reason, pg_desc, enqueued_lag_count, completed_lag_count, coverage_ratio
FROM hang_rank
WHERE $time(ts) AND $filter(cluster) AND $filter(job, job_id) AND verdict IN ('culprit', 'in_flight')
ORDER BY verdict, ts DESC, cluster, job_id, rank
LIMIT 200"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-stragglers`."""
    return board(
        "fleetmark-stragglers",
        "Fleetmark: stragglers and collectives",
        "Who makes the others wait, what it costs, and what most likely made it slow.",
        [*_ranks(), *_collectives()],
    )


def _ranks() -> list[Panel]:
    return [
        figure("Straggler ranks", About("step_straggler", ("verdict", "coverage_ratio")), SLOW_RANKS,
               steps=ANY_IS_BAD, width=8),
        figure("Lost to stragglers", About("step_straggler", ("lost_gpu_s", "coverage_ratio")), LOST, width=8),
        figure("Ranks that hold a job up", About("hang_rank", ("verdict", "coverage_ratio")), CULPRITS,
               steps=ANY_IS_BAD, width=8),
        rows("Straggler heat map: work of each rank by that of its peers",
             About("step_straggler", ("ratio", "ratio_lower", "ratio_upper", "lost_gpu_s", "coverage_ratio"),
                   "The newest day of each attempt. Up to 500 ranks, costliest first."),
             HEAT, shaded={"ratio": SLOWER}, gauges=("slow_step_ratio",), height=12),
        rows("Likely causes", About("root_cause", ("verdict", "cause", "strength", "coverage_ratio"), "Up to 200."), CAUSES),
    ]  # fmt: skip


def _collectives() -> list[Panel]:
    return [
        lines("Waiting in collectives", About("waiting_cost_day", ("lost_gpu_s", "coverage_ratio")), WAITING,
              coverage=WAITING_COVERAGE),
        lines("Bus bandwidth", About("collective_perf_day", ("busbw_p50_bytes_per_s", "coverage_ratio"),
                                     "Median over sizes, ranks and algorithms of the day's medians."), BUSBW),
        rows("Bus bandwidth against its own past and against peers",
             About("busbw_change", ("ratio", "peer_ratio", "verdict"),
                   "history_day_count says how much of the past was seen. Up to 200."), CHANGES, width=12),
        rows("Hanging jobs: who is waited for",
             About("hang_rank", ("verdict", "cause", "coverage_ratio"), "Up to 200."), HANGS, width=12),
    ]  # fmt: skip
