"""The fleet at a glance: findings, stragglers, goodput, utilisation, and how much of it was seen."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import dashboard, stat, table, timeseries
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DynamicConfigValue,
    GridPos,
    VariableOption,
    VariableRefresh,
)

from ._infinity import CLUSTERS, DATASOURCE, END, PLUGIN, START, Query, Target, definition

SOURCE = DataSourceRef(type_val=PLUGIN, uid=DATASOURCE)

CLUSTER_NAMES = Query(
    """SELECT DISTINCT cluster AS __text, cluster AS __value
FROM (SELECT cluster FROM goodput_day UNION ALL SELECT cluster FROM coverage_gpu_day
      UNION ALL SELECT cluster FROM step_straggler UNION ALL SELECT cluster FROM vc_utilization_month)
ORDER BY 1""",
    {"__text": "string", "__value": "string"},
)

# Findings of the fleet belong to clusters that telemetry may not know (accounts, regions), so the
# variable does not filter them.
SEVERE = Query(
    f"""SELECT count(*) AS findings FROM finding
WHERE severity IN ('critical', 'high') AND detected_at >= {START} AND detected_at < {END}""",  # noqa: S608 - constants only
    {"findings": "number"},
)
FINDINGS = Query(
    f"""SELECT severity, score, kind, detector, detected_at, start_ts, end_ts,
       concat_ws(' ', array_to_string(node, ','), array_to_string(job_id, ','),
                 array_to_string(principal, ','), array_to_string(checkpoint, ',')) AS subject,
       lower, upper, evidence
FROM finding
WHERE detected_at >= {START} AND detected_at < {END}
ORDER BY list_position(['critical', 'high', 'medium', 'low', 'info'], severity), score DESC, detected_at DESC
LIMIT 200""",  # noqa: S608 - constants only
    {
        "severity": "string", "score": "number", "kind": "string", "detector": "string",
        "detected_at": "timestamp", "start_ts": "timestamp", "end_ts": "timestamp",
        "subject": "string", "lower": "number", "upper": "number", "evidence": "string",
    },
)  # fmt: skip
STRAGGLER_COUNT = Query(
    f"""SELECT count(DISTINCT (cluster, job_id, attempt, rank)) AS ranks FROM step_straggler
WHERE verdict = 'slow' AND day_ts >= {START} AND day_ts < {END} AND {CLUSTERS}""",  # noqa: S608 - constants only
    {"ranks": "number"},
)
STRAGGLERS = Query(
    f"""SELECT day_ts, cluster, job_id, rank, node, ratio, ratio_lower, ratio_upper, lost_gpu_s,
       coverage_ratio
FROM step_straggler
WHERE verdict = 'slow' AND day_ts >= {START} AND day_ts < {END} AND {CLUSTERS}
ORDER BY lost_gpu_s DESC NULLS LAST, ratio DESC
LIMIT 200""",  # noqa: S608 - constants only
    {
        "day_ts": "timestamp", "cluster": "string", "job_id": "string", "rank": "number",
        "node": "string", "ratio": "number", "ratio_lower": "number", "ratio_upper": "number",
        "lost_gpu_s": "number", "coverage_ratio": "number",
    },
)  # fmt: skip
GOODPUT = Query(
    f"""SELECT day_ts, cluster, goodput_lower_ratio AS at_least, goodput_upper_ratio AS at_most
FROM goodput_day
WHERE day_ts >= {START} AND day_ts < {END} AND {CLUSTERS}
ORDER BY day_ts, cluster""",  # noqa: S608 - constants only
    {"day_ts": "timestamp", "cluster": "string", "at_least": "number", "at_most": "number"},
    "timeseries",
)
GOODPUT_COVERAGE = Query(
    f"""SELECT day_ts, cluster, coverage_ratio FROM goodput_day
WHERE day_ts >= {START} AND day_ts < {END} AND {CLUSTERS}
ORDER BY day_ts, cluster""",  # noqa: S608 - constants only
    {"day_ts": "timestamp", "cluster": "string", "coverage_ratio": "number"},
    "timeseries",
)
UTILISATION = Query(
    f"""SELECT month_ts, cluster, vc, q1_ratio, median_ratio, q3_ratio, coverage_ratio
FROM vc_utilization_month
WHERE month_ts < {END} AND {CLUSTERS}
QUALIFY month_ts = max(month_ts) OVER (PARTITION BY cluster, vc)
ORDER BY median_ratio DESC NULLS LAST, cluster, vc
LIMIT 200""",  # noqa: S608 - constants only
    {
        "month_ts": "timestamp", "cluster": "string", "vc": "string", "q1_ratio": "number",
        "median_ratio": "number", "q3_ratio": "number", "coverage_ratio": "number",
    },
)  # fmt: skip
GPU_COVERAGE = Query(
    f"""SELECT day_ts, cluster,
       sum(minute_covered_count) / nullif(sum(minute_expected_count), 0) AS coverage_ratio
FROM coverage_gpu_day
WHERE day_ts >= {START} AND day_ts < {END} AND {CLUSTERS}
GROUP BY ALL
ORDER BY day_ts, cluster""",  # noqa: S608 - constants only
    {"day_ts": "timestamp", "cluster": "string", "coverage_ratio": "number"},
    "timeseries",
)


def build() -> dashboard.Dashboard:
    """The dashboard `fleetmark-overview`."""
    board = (
        dashboard.Dashboard("Fleetmark: the fleet at a glance")
        .uid("fleetmark-overview")
        .description("Useful work, drag and theft, each figure with its coverage.")
        .tags(["fleetmark"])
        .time("now-30d", "now")
        .timezone("utc")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type(PLUGIN))
        .with_variable(
            dashboard.QueryVariable("cluster")
            .label("Cluster")
            .datasource(SOURCE)
            .query({"queryType": "infinity", "infinityQuery": CLUSTER_NAMES.model("variable")})
            .refresh(VariableRefresh.ON_DASHBOARD_LOAD)
            .include_all(include_all=True)
            .multi(multi=True)
            .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
        )
    )
    for number, (panel, place) in enumerate(_panels(), start=1):
        board = board.with_panel(panel.id(number).grid_pos(place))
    return board


def _panels() -> list[tuple[Any, GridPos]]:
    return [
        (_severe(), GridPos(h=5, w=6, x=0, y=0)),
        (_straggler_count(), GridPos(h=5, w=6, x=0, y=5)),
        (_goodput(), GridPos(h=10, w=12, x=6, y=0)),
        (_goodput_coverage(), GridPos(h=10, w=6, x=18, y=0)),
        (_findings(), GridPos(h=11, w=24, x=0, y=10)),
        (_stragglers(), GridPos(h=9, w=12, x=0, y=21)),
        (_gpu_coverage(), GridPos(h=9, w=12, x=12, y=21)),
        (_utilisation(), GridPos(h=11, w=24, x=0, y=30)),
    ]


def _severe() -> stat.Panel:
    return (
        stat.Panel()
        .title("High and critical findings")
        .description(
            definition(
                "finding", "severity", note="Detected in the range. Not filtered by cluster."
            )
        )
        .datasource(SOURCE)
        .unit("short")
        .with_target(Target(SEVERE))
    )


def _straggler_count() -> stat.Panel:
    return (
        stat.Panel()
        .title("Straggler ranks")
        .description(definition("step_straggler", "verdict", "coverage_ratio"))
        .datasource(SOURCE)
        .unit("short")
        .with_target(Target(STRAGGLER_COUNT))
    )


def _ratio_series(title: str, description: str, query: Query) -> timeseries.Panel:
    return (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit("percentunit")
        .min(0)
        .max(1)
        .with_target(Target(query))
    )


def _goodput() -> timeseries.Panel:
    text = definition("goodput_day", "goodput_lower_ratio", "goodput_upper_ratio")
    dashed = DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})
    return _ratio_series("Goodput, at least and at most", text, GOODPUT).override_by_regexp(
        "/at_most.*/", [dashed]
    )


def _goodput_coverage() -> timeseries.Panel:
    text = definition("goodput_day", "coverage_ratio")
    return _ratio_series("Coverage of goodput", text, GOODPUT_COVERAGE)


def _gpu_coverage() -> timeseries.Panel:
    text = definition(
        "coverage_gpu_day", "minute_covered_count", "minute_expected_count",
        note="coverage_ratio: covered by expected minutes, summed over the cluster's GPUs.",
    )  # fmt: skip
    return _ratio_series("GPU minutes seen", text, GPU_COVERAGE)


def _findings() -> table.Panel:
    return (
        table.Panel()
        .title("Findings, worst first")
        .description(
            definition(
                "finding",
                "score",
                "severity",
                "lower",
                "upper",
                "evidence",
                note="Up to 200, detected in the range. Not filtered by cluster.",
            )
        )
        .datasource(SOURCE)
        .unit("short")
        .override_by_name("score", _unit("percentunit"))
        .with_target(Target(FINDINGS))
    )


def _stragglers() -> table.Panel:
    columns = ("ratio", "ratio_lower", "ratio_upper", "lost_gpu_s", "coverage_ratio")
    return (
        table.Panel()
        .title("Straggler ranks, costliest first")
        .description(definition("step_straggler", *columns, note="Up to 200."))
        .datasource(SOURCE)
        .unit("short")
        .override_by_name("lost_gpu_s", _unit("s"))
        .override_by_name("coverage_ratio", _unit("percentunit"))
        .with_target(Target(STRAGGLERS))
    )


def _utilisation() -> table.Panel:
    columns = ("q1_ratio", "median_ratio", "q3_ratio", "coverage_ratio")
    gauge = DynamicConfigValue("custom.cellOptions", {"type": "gauge", "mode": "basic"})
    return (
        table.Panel()
        .title("Utilisation of virtual clusters, quartiles of the newest month")
        .description(
            definition(
                "vc_utilization_month",
                *columns,
                note="Of each virtual cluster the newest month that begins before the end of the range.",
            )
        )
        .datasource(SOURCE)
        .unit("percentunit")
        .min(0)
        .max(1)
        .override_by_name("median_ratio", [gauge])
        .with_target(Target(UTILISATION))
    )


def _unit(name: str) -> list[DynamicConfigValue]:
    return [DynamicConfigValue("unit", name)]
