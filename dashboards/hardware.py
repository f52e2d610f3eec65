"""GPUs and nodes that go bad: health, XIDs over time, throttling, clocks, memory, links."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.common import GraphDrawStyle

from ._board import board
from ._panels import ANY_IS_BAD, About, Panel, figure, lines, rows

SUSPECTED = """SELECT count(*) FILTER (WHERE fault = 'hardware_suspected' AND is_root AND $time(start_ts)
                          AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid)) AS events,
       (SELECT avg(has_kernel_log::INT) FROM node_health
        WHERE $time(day_ts) AND $filter(cluster) AND $filter(node)) AS coverage_ratio
FROM health_event"""

THROTTLED = """SELECT sum(throttled_s) FILTER (WHERE is_fault) / sum(known_s) FILTER (WHERE is_fault) AS throttled_ratio,
       avg(coverage_ratio) AS coverage_ratio
FROM gpu_throttle_hour
WHERE $time(hour_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)"""

UNCORRECTED = """SELECT sum(ecc_dbe_new_count) AS errors, avg(coverage_ratio) AS coverage_ratio
FROM gpu_memory_health_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)"""

XIDS = """SELECT start_ts, node, code FROM health_event
WHERE event IN ('xid', 'sxid') AND $time(start_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid)
ORDER BY start_ts, node LIMIT 5000"""

XID_COVERAGE = """SELECT day_ts, avg(has_kernel_log::INT) AS coverage_ratio
FROM node_health WHERE $time(day_ts) AND $filter(cluster) AND $filter(node)
GROUP BY day_ts ORDER BY day_ts"""

EVENTS = """SELECT start_ts, end_ts, cluster, node, gpu_uuid, event, code, severity_text, is_root, fault,
       event_count_lower, event_count_upper, job_id, principal, confidence, message
FROM health_event
WHERE $time(start_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid)
ORDER BY start_ts DESC, event_id LIMIT 500"""

NODES = """SELECT day_ts, cluster, rank_in_cluster AS place_in_line, node, rack, state, action, level, reason,
       worst_gpu_uuid AS gpu_uuid, fact_30d_count, is_repeat_offender, array_to_string(job_ids, ', ') AS jobs,
       gpu_h_at_stake AS at_stake_gpu_h, has_kernel_log, coverage_ratio
FROM node_health
WHERE $time(day_ts) AND $filter(cluster) AND $filter(node)
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)
ORDER BY list_position(['act', 'watch', 'unknown', 'clear'], state), cluster, rank_in_cluster
LIMIT 500"""

THROTTLE_HOURS = """SELECT hour_ts, cause, sum(throttled_s) / sum(known_s) AS throttled_ratio
FROM gpu_throttle_hour
WHERE cause NOT IN ('idle', 'display', 'low_util') AND $time(hour_ts) AND $filter(cluster) AND $filter(node)
  AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)
GROUP BY ALL ORDER BY hour_ts, cause"""

THROTTLE_COVERAGE = """SELECT hour_ts, avg(coverage_ratio) AS coverage_ratio
FROM gpu_throttle_hour
WHERE cause NOT IN ('idle', 'display', 'low_util') AND $time(hour_ts) AND $filter(cluster) AND $filter(node)
  AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)
GROUP BY ALL ORDER BY hour_ts"""

CLOCKS = """SELECT cluster, node, gpu_uuid, gpu_model, max(clock_deficit_ratio) AS clock_deficit_ratio,
       sum(unexplained_minute_count)::BIGINT AS unexplained_minutes, min(sm_clock_mhz) AS sm_clock_mhz,
       max(sm_clock_reference_mhz) AS reference_mhz, max(power_w) AS power_w, min(power_limit_w) AS limit_w,
       avg(coverage_ratio) AS coverage_ratio
FROM gpu_clock_hour
WHERE $time(hour_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)
GROUP BY ALL
ORDER BY unexplained_minutes DESC NULLS LAST, clock_deficit_ratio DESC NULLS LAST, cluster, node, gpu_uuid
LIMIT 200"""

MEMORY = """SELECT cluster, node, gpu_uuid, sum(ecc_dbe_new_count)::BIGINT AS uncorrected, sum(ecc_sbe_new_count)::BIGINT AS corrected,
       sum(row_remap_new_count)::BIGINT AS rows_remapped, max(row_remap_pending) AS remap_pending,
       max(row_remap_failed) AS remap_failed, avg(coverage_ratio) AS coverage_ratio
FROM gpu_memory_health_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)
GROUP BY ALL
ORDER BY uncorrected DESC NULLS LAST, remap_failed DESC NULLS LAST, corrected DESC NULLS LAST, cluster, node, gpu_uuid
LIMIT 200"""

LINKS = """SELECT day_ts, cluster, node, gpu_uuid, pcie_width_lanes, pcie_width_expected_lanes, pcie_replay_new_count,
       nvlink_up_min_count, nvlink_expected_count, nvlink_crc_new_count, nvlink_recovery_new_count, coverage_ratio
FROM gpu_link_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(node) AND $filter(gpu, gpu_uuid) AND $filter(gpu_model)
  AND (pcie_narrow_minute_count > 0 OR pcie_slow_minute_count > 0 OR pcie_replay_high_minute_count > 0
       OR nvlink_up_min_count < nvlink_expected_count OR nvlink_error_minute_count > 0)
ORDER BY day_ts DESC, cluster, node, gpu_uuid
LIMIT 200"""


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-hardware`."""
    return board(
        "fleetmark-hardware",
        "Fleetmark: GPU and node degradation",
        "Which nodes and GPUs go bad, what they said, and what they cost in speed.",
        [*_figures(), *_events(), *_slow()],
        since="now-7d",
    )


def _figures() -> list[Panel]:
    return [
        figure("Events that suspect hardware",
               About("health_event", ("fault", "is_root"), "Coverage: node-days with a known kernel log."), SUSPECTED,
               steps=ANY_IS_BAD, width=8),
        figure("Throttled by a fault",
               About("gpu_throttle_hour", ("is_fault", "throttled_ratio", "coverage_ratio"),
                     "Throttled seconds by known seconds, over GPUs, hours and causes of that kind."), THROTTLED, width=8),
        figure("Uncorrected memory errors", About("gpu_memory_health_day", ("ecc_dbe_new_count", "coverage_ratio")),
               UNCORRECTED, steps=ANY_IS_BAD, width=8),
    ]  # fmt: skip


def _events() -> list[Panel]:
    kernel = "Coverage: share of the nodes whose kernel log is known. Up to 5,000."
    return [
        rows("Nodes, worst first", About("node_health", ("state", "action", "level", "reason", "coverage_ratio"),
                                         "The newest day of each cluster. Up to 500."), NODES),
        lines("XID timeline", About("health_event", ("code",), kernel), XIDS, coverage=XID_COVERAGE,
              style=GraphDrawStyle.POINTS, width=24),
        rows("Health events, newest first",
             About("health_event", ("event", "is_root", "fault", "confidence"), "Up to 500."), EVENTS),
    ]  # fmt: skip


def _slow() -> list[Panel]:
    return [
        lines("Time throttled, by cause",
              About("gpu_throttle_hour", ("cause", "throttled_ratio", "coverage_ratio"),
                    "Of all GPUs together; without idle, display and low utilisation."),
              THROTTLE_HOURS, coverage=THROTTLE_COVERAGE),
        rows("Clocks below what they may reach",
             About("gpu_clock_hour", ("clock_deficit_ratio", "unexplained_minute_count", "coverage_ratio"), "Up to 200."),
             CLOCKS, width=12, height=9),
        rows("Memory", About("gpu_memory_health_day",
                             ("ecc_dbe_new_count", "ecc_sbe_new_count", "row_remap_new_count", "coverage_ratio"), "Up to 200."),
             MEMORY, width=12, height=9),
        rows("Links that fell short", About("gpu_link_day", ("pcie_width_lanes", "nvlink_up_min_count", "coverage_ratio"),
                                            "Only days with a narrow, slow or failing link. Up to 200."),
             LINKS, width=12, height=9),
    ]  # fmt: skip
