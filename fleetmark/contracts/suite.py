"""Expectations of a table's profile: from its contract, and hand-written ones of expectations.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
import polars as pl

from fleetmark.catalog import Catalog
from fleetmark.contracts.profile import RANGES, ranged
from fleetmark.errors import DefinitionError
from fleetmark.table import Table

# What is judged, a row each: a measure of a scope, the range it must lie in, and `column`, which is
# shared by what is judged together.
ASKED: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("table_name", "source", "scope", "expectation", "severity"), pl.String()),
    "observed": pl.Float64(),
    "wanted": pl.String(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "why": pl.String(),
    "column": pl.String(),
}
Severity = Literal["error", "warning"]
EVERY_TABLE = "*"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A measure of the profile must lie in [low, high]. NULL is not judged."""

    measure: str
    low: float
    high: float
    severity: Severity
    why: str

    @property
    def wanted(self) -> str:
        if self.low == self.high:
            return f"{self.low:g}"
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        if math.isinf(self.low):
            return f"at most {self.high:g}"
        return f"{self.low:g} to {self.high:g}"


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of expectations.toml. `sql`: for a measure across tables, (start_ts, value) by hour."""

    table: str
    measure: str
    why: str
    severity: Severity = "warning"
    low: float = -math.inf
    high: float = math.inf
    sql: str = ""

    @property
    def expectation(self) -> Expectation:
        return Expectation(self.measure, self.low, self.high, self.severity, self.why)


@cache
def written() -> tuple[Written, ...]:
    """The hand-written expectations."""
    text = (files("fleetmark.contracts") / "expectations.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["expectation"], tuple[Written, ...])


def check_written(entries: Sequence[Written], catalog: Catalog) -> None:
    """Raises DefinitionError for an entry of a table that is not there, or of no limit."""
    for one in entries:
        where = f"expectations.toml: {one.table} {one.measure}"
        if one.table != EVERY_TABLE and one.table not in catalog.tables:
            raise DefinitionError(f"{where}: no such table")
        if math.isinf(one.low) and math.isinf(one.high):
            raise DefinitionError(f"{where}: give low, high or both")


def crossing(table: Table) -> list[Written]:
    """Its hand-written expectations across tables."""
    return [one for one in written() if one.sql and one.table == table.name]


def suite(table: Table) -> list[Expectation]:
    """What a table's profile is held to."""
    found = [
        Expectation(f"null_ratio.{name}", 0, 0, "error", "the contract requires a value")
        for name in table.required()
    ]
    found.append(Expectation("duplicate_count", 0, 0, "error", "one row per grain"))
    for unit, columns in ranged(table).items():
        low, high = (f"{limit:g}" for limit in RANGES[unit])
        names = ", ".join(column.name for column in columns)
        why = f"values in {unit} lie in {low} to {high}: {names}"
        found.append(Expectation(f"out_of_range_count.{unit}", 0, 0, "warning", why))
    found += [one.expectation for one in written() if one.table in (EVERY_TABLE, table.name)]
    return found


def asked_of(table: Table, profiled: pl.DataFrame, *, by_measure: bool) -> pl.DataFrame:
    """Rows of ASKED: each scope of a profile against each expectation whose measure it has.

    `by_measure`: judged apart by measure, as people read it; else by range and severity, which many
    measures of many tables share.
    """
    return pl.concat(
        profiled.select(
            pl.lit(table.name).alias("table_name"),
            "source",
            "scope",
            pl.lit(one.measure).alias("expectation"),
            pl.lit(one.severity).alias("severity"),
            pl.col(one.measure).cast(pl.Float64).alias("observed"),
            pl.lit(one.wanted).alias("wanted"),
            pl.lit(one.low, pl.Float64).alias("low"),
            pl.lit(one.high, pl.Float64).alias("high"),
            pl.lit(one.why).alias("why"),
            pl.lit(one.measure if by_measure else f"{one.severity}: {one.low} to {one.high}").alias(
                "column"
            ),
        )
        for one in suite(table)
        if one.measure in profiled.columns
    )
