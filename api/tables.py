"""`/tables`: what can be asked, with the contract and what stands in it."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from fleetmark.query.snapshot import Files, RowFilter, Snapshot
from fleetmark.table import Table, quote

from .admission import principal_of
from .lake import Lake
from .problems import Problem
from .unchanged import mark

router = APIRouter(tags=["tables"])


class Column(BaseModel):
    """One column of a contract."""

    name: str
    type: str = Field(description="DuckDB type")
    unit: str | None = Field(description="unit of the value, where it has one")
    doc: str
    nullable: bool = Field(description="whether NULL (unknown) may stand in it")


class TableCoverage(BaseModel):
    """How much of its own time range a table has rows for. NULL for tables without time or rows."""

    period: str = Field(description="what is counted: UTC days, or months for monthly tables")
    period_count: int | None = Field(description="periods with at least one row")
    range_period_count: int | None = Field(description="periods from the first row to the last")
    period_ratio: float | None = Field(description="period_count / range_period_count")
    mean_coverage_ratio: float | None = Field(
        description="mean of the column coverage_ratio over all rows; NULL where there is none"
    )


class TableSummary(BaseModel):
    """A table and how much stands in it."""

    name: str
    doc: str
    grain: list[str] = Field(description="columns that make a row unique")
    time: str | None = Field(description="column of the event time")
    row_count: int
    first_ts: str | None = Field(description="earliest event time, ISO 8601 UTC")
    last_ts: str | None = Field(description="latest event time, ISO 8601 UTC")
    coverage: TableCoverage


class TableDetail(TableSummary):
    """A table with its columns."""

    columns: list[Column]


class TableList(BaseModel):
    """All tables at one snapshot."""

    snapshot: int
    tables: list[TableSummary]


class Contents:
    """What stands in tables, counted once per state of a table's files."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: dict[tuple[str, RowFilter | None], tuple[Files, TableSummary]] = {}
        self._lock = threading.Lock()

    def summary(self, table: Table, snapshot: Snapshot) -> TableSummary:
        files = snapshot.files[table.name]
        key = (table.name, snapshot.rows.get(table.name))
        with self._lock:
            known = self._known.get(key)
            if known is None or known[0] != files:
                known = (files, self._count(table, snapshot))
                self._known[key] = known
            return known[1]

    def _count(self, table: Table, snapshot: Snapshot) -> TableSummary:
        counted: dict[str, Any] = {"row_count": 0}
        if snapshot.files[table.name]:
            counted = self._lake.rows(_count_sql(table), [table.name], snapshot=snapshot)[0]
        seen, span = counted.get("period_count"), counted.get("range_period_count")
        return TableSummary(
            name=table.name,
            doc=table.doc,
            grain=list(table.grain),
            time=table.time,
            row_count=counted["row_count"],
            first_ts=counted.get("first_ts"),
            last_ts=counted.get("last_ts"),
            coverage=TableCoverage(
                period=_period(table),
                period_count=seen,
                range_period_count=span,
                period_ratio=seen / span if seen and span else None,
                mean_coverage_ratio=counted.get("coverage"),
            ),
        )


def _period(table: Table) -> str:
    return "month" if table.period == "month" else "day"


def _count_sql(table: Table) -> str:
    figures = ["count(*) AS row_count"]
    if table.time:
        time, period = quote(table.time), _period(table)
        figures += [
            f"min({time}) AS first_ts",
            f"max({time}) AS last_ts",
            f"nullif(count(DISTINCT date_trunc('{period}', {time})), 0) AS period_count",
            f"date_diff('{period}', min({time}), max({time})) + 1 AS range_period_count",
        ]
    if "coverage_ratio" in table.column_names:
        figures.append("avg(coverage_ratio) AS coverage")
    return f"SELECT {', '.join(figures)} FROM {quote(table.name)}"  # noqa: S608 - names are quoted


@router.get("/tables")
def list_tables(request: Request, response: Response) -> TableList:
    """Every table: what one row is, how many there are, which time they cover."""
    lake: Lake = request.app.state.lake
    contents: Contents = request.app.state.contents
    snapshot = lake.seen_by(principal_of(request))
    mark(request, response, snapshot)
    return TableList(
        snapshot=snapshot.id,
        tables=[contents.summary(table, snapshot) for table in snapshot.tables.values()],
    )


@router.get("/tables/{name}")
def show_table(
    request: Request, response: Response, name: Annotated[str, Path(max_length=200)]
) -> TableDetail:
    """A table's contract: columns with type, unit and meaning."""
    lake: Lake = request.app.state.lake
    snapshot = lake.seen_by(principal_of(request))
    mark(request, response, snapshot)
    table = snapshot.tables.get(name)
    if table is None:
        raise Problem(404, "No such table", f"there is no table {name}; /tables lists them")
    summary = request.app.state.contents.summary(table, snapshot)
    return TableDetail(**summary.model_dump(), columns=columns_of(table))


def columns_of(table: Table) -> list[Column]:
    """The contract's columns as the API shows them."""
    required = table.required()
    return [
        Column(
            name=column.name,
            type=column.type,
            unit=column.unit,
            doc=column.doc,
            nullable=column.name not in required,
        )
        for column in table.columns
    ]
