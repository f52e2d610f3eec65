"""A dashboard from panels: variables, incidents, links to the others, and where each panel stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog import builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableOption,
    VariableRefresh,
)

from ._infinity import ALL, PLUGIN, Query
from ._panels import SOURCE, Panel

GRID = 24

# Each lists what the tables of its dashboards hold in the range, the newest of what is many.
VARIABLES: Mapping[str, tuple[str, str]] = {
    "cluster": (
        "Cluster",
        """SELECT DISTINCT cluster AS __text, cluster AS __value
FROM (SELECT cluster FROM goodput_day UNION ALL SELECT cluster FROM coverage_gpu_day
      UNION ALL SELECT cluster FROM step_straggler UNION ALL SELECT cluster FROM node_health
      UNION ALL SELECT cluster FROM log_coverage_hour UNION ALL SELECT cluster FROM serving_goodput_hour
      UNION ALL SELECT cluster FROM vc_utilization_month)
ORDER BY 1""",
    ),
    "team": (
        "Team",
        """SELECT DISTINCT account AS __text, account AS __value FROM job_goodput
WHERE account IS NOT NULL AND $time(day_ts) AND $filter(cluster)
ORDER BY 1 LIMIT 1000""",
    ),
    "job": (
        "Job",
        """SELECT job_id AS __text, job_id AS __value
FROM (SELECT cluster, job_id, day_ts FROM job_goodput
      UNION ALL SELECT cluster, job_id, day_ts FROM job_mfu
      UNION ALL SELECT cluster, job_id, day_ts FROM step_straggler)
WHERE $time(day_ts) AND $filter(cluster)
GROUP BY job_id ORDER BY max(day_ts) DESC, job_id LIMIT 1000""",
    ),
    "node": (
        "Node",
        """SELECT DISTINCT node AS __text, node AS __value
FROM (SELECT cluster, node, day_ts FROM node_health UNION ALL SELECT cluster, node, day_ts FROM coverage_gpu_day)
WHERE node IS NOT NULL AND $time(day_ts) AND $filter(cluster)
ORDER BY 1 LIMIT 5000""",
    ),
    "gpu": (
        "GPU",
        """SELECT DISTINCT gpu_uuid AS __text, gpu_uuid AS __value FROM coverage_gpu_day
WHERE $time(day_ts) AND $filter(cluster) AND $filter(node)
ORDER BY 1 LIMIT 5000""",
    ),
    "gpu_model": (
        "GPU model",
        """SELECT DISTINCT gpu_model AS __text, gpu_model AS __value
FROM (SELECT cluster, gpu_model, day_ts FROM gpu_hours_waterfall
      UNION ALL SELECT cluster, gpu_model, day_ts FROM mfu_day
      UNION ALL SELECT cluster, gpu_model, hour_ts FROM gpu_clock_hour)
WHERE gpu_model IS NOT NULL AND gpu_model NOT IN ('', '*', 'all') AND $time(day_ts) AND $filter(cluster)
ORDER BY 1 LIMIT 1000""",
    ),
}  # fmt: skip

# What was slow or stood still, over every graph, with the likeliest cause.
INCIDENTS = Query(
    """SELECT start_ts AS time, end_ts AS "timeEnd", concat_ws(' ', kind, accused) AS title,
       coalesce(summary, 'no cause is known') AS text, concat_ws(',', kind, job_id, node) AS tags
FROM root_cause
WHERE $time(day_ts) AND $filter(cluster) AND start_ts IS NOT NULL
ORDER BY start_ts DESC LIMIT 500""",
    "dataframe",
)


class _Built(builder.Builder[Any]):
    """A value where the SDK expects a builder: its own annotation target knows no plugin."""

    def __init__(self, value: object) -> None:
        self._value = value

    def build(self) -> Any:  # noqa: ANN401 - whatever was given
        return self._value


def board(
    uid: str, title: str, description: str, panels: Sequence[Panel], *, since: str = "now-30d"
) -> dashboard.Dashboard:
    """A dashboard with the variables that its panels ask for."""
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["fleetmark"])
        .time(since, "now")
        .timezone("utc")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Fleetmark")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["fleetmark"])
            .as_dropdown(as_dropdown=True)
            .keep_time(keep_time=True)
            .include_vars(include_vars=True)
        )
        .annotation(_incidents())
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type(PLUGIN))
    )
    asked = {"cluster"}.union(*(q.variables for panel in panels for q in panel.queries))
    if "gpu" in asked:
        asked.add("node")
    for name in VARIABLES:
        if name in asked:
            made = made.with_variable(_variable(name))
    for number, (panel, place) in enumerate(_places(panels), start=1):
        made = made.with_panel(panel.built.id(number).grid_pos(place))
    return made


def _variable(name: str) -> dashboard.QueryVariable:
    label, sql = VARIABLES[name]
    query: dict[str, object] = {
        "queryType": "infinity",
        "infinityQuery": Query(sql).model("variable"),
    }
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .include_all(include_all=True)
        .all_value(ALL)
        .multi(multi=True)
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _incidents() -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name("Incidents")
        .datasource(SOURCE)
        .enable(enable=True)
        .icon_color("red")
        .target(_Built(_Json(INCIDENTS.model("Anno"))))
    )


class _Json:
    def __init__(self, model: dict[str, object]) -> None:
        self._model = model

    def to_json(self) -> dict[str, object]:
        return self._model


def _places(panels: Sequence[Panel]) -> Iterator[tuple[Panel, GridPos]]:
    """Left to right; a panel that does not fit begins a row below the tallest of the last."""
    x = y = tallest = 0
    for panel in panels:
        if x + panel.width > GRID:
            x, y, tallest = 0, y + tallest, 0
        yield panel, GridPos(h=panel.height, w=panel.width, x=x, y=y)
        x, tallest = x + panel.width, max(tallest, panel.height)
