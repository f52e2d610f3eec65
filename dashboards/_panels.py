"""The kinds of panel that dashboards are made of: a figure, lines over time, a table.

Units follow the names of columns (`_s`, `_ratio`, `_bytes`, ...), as do the links: wherever a table
shows a job, a node or a GPU, its name leads to the dashboard about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, stat, table, timeseries
from grafana_foundation_sdk.models.common import (
    AxisPlacement,
    BigValueColorMode,
    GraphDrawStyle,
    StackingMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)

from fleetmark.catalog import load_catalog

from ._infinity import DATASOURCE, PLUGIN, Query, Target

SOURCE = DataSourceRef(type_val=PLUGIN, uid=DATASOURCE)

# Grafana's unit by the end of a column's name, the longest that fits.
UNITS: Mapping[str, str] = {
    "_ratio": "percentunit",
    "_tokens_per_gpu_s": "suffix: tokens/GPU/s",
    "_bytes_per_s": "Bps",
    "_per_s": "suffix:/s",
    "_tflops": "suffix: TFLOP/s",
    "_bytes": "decbytes",
    "_gpu_h": "suffix: GPU h",
    "_h": "h",
    "_s": "s",
    "_w": "watt",
    "_c": "celsius",
    "_mhz": "suffix: MHz",
}
# Where a name in a table leads: the dashboard, and the variable that it sets.
LINKS: Mapping[str, tuple[str, str]] = {
    "job_id": ("fleetmark-jobs", "job"),
    "node": ("fleetmark-hardware", "node"),
    "gpu_uuid": ("fleetmark-hardware", "gpu"),
}
# Times in tables: what the name promises, not the second.
DATES: Mapping[str, str] = {
    "month_ts": "time:YYYY-MM",
    "day_ts": "time:YYYY-MM-DD",
    "": "time:YYYY-MM-DD HH:mm",
}
# Columns that hold sentences; all others are narrow, so that coverage is seen without scrolling.
SENTENCES = frozenset({"reason", "message", "evidence", "summary", "error", "example_path"})
NARROW_PX, TIME_PX, SENTENCE_PX = 70, 130, 200
_DASH = DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})

# (from this value on, colour); the first holds from below.
Steps = tuple[tuple[float | None, str], ...]
LOW_IS_BAD: Steps = ((None, "red"), (0.8, "orange"), (0.95, "green"))
ANY_IS_BAD: Steps = ((None, "green"), (1, "red"))


@dataclass(frozen=True, slots=True)
class About:
    """What a panel shows, in the contract's words: a table, columns of it, and what was left out."""

    table: str
    columns: tuple[str, ...] = ()
    note: str = ""

    @property
    def text(self) -> str:
        """The panel's description."""
        contract = load_catalog().tables[self.table]
        parts = [f"**{self.table}**: {_line(contract.doc)}"]
        parts += [f"**{name}**: {_line(contract.column(name).doc)}" for name in self.columns]
        return "\n\n".join([*parts, self.note] if self.note else parts)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel and the room it takes, in Grafana's 24 columns."""

    built: Any
    width: int
    height: int
    queries: tuple[Query, ...] = field(default=())


def unit_of(column: str) -> str:
    """Grafana's unit of a column, by its name; `short` for numbers without one."""
    fitting = [end for end in UNITS if column.endswith(end)]
    return UNITS[max(fitting, key=len)] if fitting else "short"


def label_of(column: str) -> str:
    """A column's name for people: without the unit, which stands at the value."""
    ends = [end for end in (*UNITS, "_ts") if column.endswith(end)]
    return column.removesuffix(max(ends, key=len, default="")).replace("_", " ")


def _label(column: str) -> DynamicConfigValue:
    return DynamicConfigValue("displayName", label_of(column))


def figure(
    title: str,
    about: About,
    sql: str,
    *,
    steps: Steps = ((None, "text"),),
    width: int = 6,
    height: int = 5,
) -> Panel:
    """The newest value of each column, side by side: the figure and its coverage."""
    query = Query(sql)
    names = [name for name, kind in query.columns.items() if kind == "number"]
    panel = (
        stat.Panel()
        .title(title)
        .description(about.text)
        .datasource(SOURCE)
        .unit(unit_of(names[0]))
        .color_mode(BigValueColorMode.VALUE)
        .thresholds(_thresholds(steps))
        .reduce_options(_all_numbers())
        .with_target(Target(query))
    )
    for name in names:
        panel = panel.override_by_name(name, [_label(name), *_unit(unit_of(name))])
    return Panel(_plain_coverage(panel), width, height, (query,))


def lines(
    title: str,
    about: About,
    sql: str,
    *,
    coverage: str | None = None,
    style: GraphDrawStyle = GraphDrawStyle.LINE,
    stacked: bool = False,
    width: int = 12,
    height: int = 9,
) -> Panel:
    """Values over time, one series per number and combination of names.

    `coverage` is the SQL of coverage where it belongs to all series together. Coverage is drawn
    dashed, on an axis of its own where the figure is no ratio.
    """
    queries = [Query(text, "timeseries") for text in (sql, coverage) if text is not None]
    names = [n for n, kind in queries[0].columns.items() if kind == "number"]
    unit = unit_of(names[0])
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about.text)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .draw_style(style)
        .fill_opacity(60 if stacked else 0)
        .show_points(_points(style))
        .point_size(7 if style is GraphDrawStyle.POINTS else 4)
        .stacking(common.StackingConfig().mode(_stacking(stacked)))
    )
    for number, query in enumerate(queries):
        panel = panel.with_target(Target(query, "AB"[number]))
    side = DynamicConfigValue("custom.axisPlacement", AxisPlacement.RIGHT)
    apart = [] if unit == "percentunit" else [side]
    return Panel(
        panel.override_by_regexp("/.*at_most.*/", [_DASH]).override_by_regexp(
            "/.*coverage_ratio.*/",
            [
                *_unit("percentunit"), DynamicConfigValue("max", 1), *apart, _DASH,
                DynamicConfigValue("custom.drawStyle", "line"),
                DynamicConfigValue("custom.fillOpacity", 0),
                DynamicConfigValue("custom.stacking", {"mode": "none", "group": "coverage"}),
                DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "gray"}),
            ],
        ),
        width, height, tuple(queries),
    )  # fmt: skip


def rows(
    title: str,
    about: About,
    sql: str,
    *,
    shaded: Mapping[str, Steps] | None = None,
    gauges: tuple[str, ...] = (),
    width: int = 24,
    height: int = 10,
) -> Panel:
    """A table. `shaded` columns are coloured by their value, `gauges` drawn as bars."""
    query = Query(sql)
    panel = (
        table.Panel()
        .title(title)
        .description(about.text)
        .datasource(SOURCE)
        .unit("short")
        .with_target(Target(query))
    )
    for name, kind in query.columns.items():
        settings = _shown_as(name, kind)
        settings += _link(name, query) + _cell(name, shaded or {}, gauges)
        panel = panel.override_by_name(name, settings)
    return Panel(panel, width, height, (query,))


def _shown_as(name: str, kind: str) -> list[DynamicConfigValue]:
    width = NARROW_PX
    if name in SENTENCES:
        width = SENTENCE_PX
    elif kind == "timestamp" and name not in DATES:
        width = TIME_PX
    settings = [_label(name), DynamicConfigValue("custom.minWidth", width)]
    if kind == "timestamp":
        return [*settings, *_unit(DATES.get(name, DATES[""]))]
    if kind == "number" and unit_of(name) != "short":
        return [*settings, *_unit(unit_of(name))]
    return settings


def _cell(
    name: str, shaded: Mapping[str, Steps], gauges: tuple[str, ...]
) -> list[DynamicConfigValue]:
    if name in gauges:
        cell = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
        return [DynamicConfigValue("custom.cellOptions", cell), DynamicConfigValue("min", 0)]
    if name not in shaded:
        return []
    steps = [{"value": value, "color": colour} for value, colour in shaded[name]]
    cell = {"type": "color-background", "mode": "basic"}
    return [
        DynamicConfigValue("custom.cellOptions", cell),
        DynamicConfigValue("color", {"mode": "thresholds"}),
        DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}),
    ]


def _link(name: str, query: Query) -> list[DynamicConfigValue]:
    if name not in LINKS:
        return []
    board, variable = LINKS[name]
    chosen = [f"var-{variable}=${{__value.text:percentencode}}"]
    if "cluster" in query.columns:
        chosen.append("var-cluster=${__data.fields.cluster:percentencode}")
    url = f"/d/{board}?{'&'.join(chosen)}&${{datasource:queryparam}}&${{__url_time_range}}"
    return [DynamicConfigValue("links", [{"title": f"This {variable}", "url": url}])]


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    made = [Threshold(value=value, color=colour) for value, colour in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(made)


def _all_numbers() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().values(False).calcs(["lastNotNull"])  # noqa: FBT003 - the SDK's


def _plain_coverage(panel: stat.Panel) -> stat.Panel:
    return panel.override_by_name(
        "coverage_ratio",
        [DynamicConfigValue("color", {"mode": FieldColorModeId.FIXED, "fixedColor": "text"})],
    )


def _points(style: GraphDrawStyle) -> VisibilityMode:
    # One day of data is a point, which a line alone would not show.
    return VisibilityMode.NEVER if style is GraphDrawStyle.BARS else VisibilityMode.AUTO


def _stacking(stacked: bool) -> StackingMode:
    return StackingMode.NORMAL if stacked else StackingMode.NONE


def _unit(name: str) -> list[DynamicConfigValue]:
    return [DynamicConfigValue("unit", name)]


def _line(text: str) -> str:
    return " ".join(text.split())
