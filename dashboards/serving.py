"""Inference servers: tokens within the latency objective, and how long a replica takes to start."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.common import GraphDrawStyle

from ._board import board
from ._panels import LOW_IS_BAD, About, Panel, figure, lines, rows

WITHIN = """SELECT sum(within_lower_ratio * request_count) / sum(request_count) AS at_least_ratio,
       sum(within_upper_ratio * request_count) / sum(request_count) AS at_most_ratio,
       avg(coverage_ratio) AS coverage_ratio
FROM serving_goodput_hour
WHERE within_lower_ratio IS NOT NULL AND request_count > 0 AND $time(hour_ts) AND $filter(cluster)"""

TOKENS = """SELECT avg(goodput_lower_tokens_per_gpu_s) AS at_least_tokens_per_gpu_s,
       avg(goodput_upper_tokens_per_gpu_s) AS at_most_tokens_per_gpu_s, avg(coverage_ratio) AS coverage_ratio
FROM serving_goodput_hour WHERE $time(hour_ts) AND $filter(cluster)"""

STARTS = """SELECT quantile_cont(total_s, 0.9) AS start_p90_s, avg(coverage_ratio) AS coverage_ratio
FROM serving_cold_start WHERE $time(ready_ts) AND $filter(cluster)"""

WITHIN_HOURS = """SELECT hour_ts, model, sum(within_lower_ratio * request_count) / sum(request_count) AS at_least_ratio,
       sum(within_upper_ratio * request_count) / sum(request_count) AS at_most_ratio, avg(coverage_ratio) AS coverage_ratio
FROM serving_goodput_hour
WHERE within_lower_ratio IS NOT NULL AND request_count > 0 AND $time(hour_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts, model"""

OUTPUT_HOURS = """SELECT hour_ts, model, avg(tokens_per_gpu_s) AS all_tokens_per_gpu_s,
       avg(goodput_lower_tokens_per_gpu_s) AS at_least_tokens_per_gpu_s,
       avg(goodput_upper_tokens_per_gpu_s) AS at_most_tokens_per_gpu_s, avg(coverage_ratio) AS coverage_ratio
FROM serving_goodput_hour WHERE $time(hour_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts, model"""

LATENCY = """SELECT hour_ts, model, avg(ttft_within_lower_ratio) AS first_token_at_least_ratio, avg(tpot_within_lower_ratio) AS further_token_at_least_ratio,
       avg(coverage_ratio) AS coverage_ratio
FROM serving_goodput_hour WHERE $time(hour_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts, model"""

REPLICAS = """SELECT cluster, replica, model, any_value(server) AS server, max(gpu_count) AS gpus, sum(request_count) AS requests,
       sum(generation_token_count) AS tokens, min(within_lower_ratio) AS worst_within_ratio, avg(tokens_per_gpu_s) AS tokens_per_gpu_s,
       sum(start_count)::BIGINT AS starts, avg(coverage_ratio) AS coverage_ratio
FROM serving_goodput_hour WHERE $time(hour_ts) AND $filter(cluster)
GROUP BY cluster, replica, model
ORDER BY worst_within_ratio NULLS LAST, cluster, replica, model LIMIT 500"""

PHASES = """SELECT date_trunc('hour', ready_ts) AS hour_ts, avg(schedule_s) AS schedule_s, avg(pull_s) AS pull_s, avg(container_s) AS container_s,
       avg(load_s) AS load_s, avg(warm_up_s) AS warm_up_s, avg(other_s) AS other_s
FROM serving_cold_start WHERE $time(ready_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts"""

PHASE_COVERAGE = """SELECT date_trunc('hour', ready_ts) AS hour_ts, avg(coverage_ratio) AS coverage_ratio
FROM serving_cold_start WHERE $time(ready_ts) AND $filter(cluster)
GROUP BY ALL ORDER BY hour_ts"""

COLD = """SELECT ready_ts, cluster, replica, node, total_s, schedule_s, pull_s, container_s, load_s, warm_up_s, other_s, coverage_ratio
FROM serving_cold_start WHERE $time(ready_ts) AND $filter(cluster) AND $filter(node)
ORDER BY total_s DESC, ready_ts DESC, replica LIMIT 200"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-serving`."""
    return board(
        "fleetmark-serving",
        "Fleetmark: serving",
        "Tokens within the latency objective, as bounds, and how long replicas take to start.",
        [*_figures(), *_hours(), *_replicas()],
        since="now-7d",
    )


def _figures() -> list[Panel]:
    within = ("within_lower_ratio", "within_upper_ratio", "coverage_ratio")
    tokens = ("goodput_lower_tokens_per_gpu_s", "goodput_upper_tokens_per_gpu_s", "coverage_ratio")
    return [
        figure("Requests within the objective", About("serving_goodput_hour", within, "Weighted by requests."), WITHIN,
               steps=LOW_IS_BAD, width=8),
        figure("Goodput", About("serving_goodput_hour", tokens, "Mean over replicas and hours."), TOKENS, width=8),
        figure("Cold start, 90th percentile", About("serving_cold_start", ("total_s", "coverage_ratio")), STARTS, width=8),
    ]  # fmt: skip


def _hours() -> list[Panel]:
    return [
        lines("Requests within the objective, by model",
              About("serving_goodput_hour", ("within_lower_ratio", "within_upper_ratio", "coverage_ratio")), WITHIN_HOURS),
        lines("Tokens per GPU-second, by model",
              About("serving_goodput_hour", ("tokens_per_gpu_s", "goodput_lower_tokens_per_gpu_s", "coverage_ratio")), OUTPUT_HOURS),
        lines("First and further tokens in time, at least",
              About("serving_goodput_hour", ("ttft_within_lower_ratio", "tpot_within_lower_ratio", "coverage_ratio")), LATENCY),
        lines("Cold starts by phase, mean", About("serving_cold_start", ("total_s", "load_s", "coverage_ratio")), PHASES,
              coverage=PHASE_COVERAGE, style=GraphDrawStyle.BARS, stacked=True),
    ]  # fmt: skip


def _replicas() -> list[Panel]:
    return [
        rows("Replicas, worst first", About("serving_goodput_hour", ("within_lower_ratio", "tokens_per_gpu_s", "coverage_ratio")),
             REPLICAS, width=12),
        rows("Cold starts, slowest first", About("serving_cold_start", ("total_s", "load_s", "coverage_ratio"), "Up to 200."),
             COLD, width=12),
    ]  # fmt: skip
