"""Contracts: what a table is called, what one row means, and what each column holds.

A table is the only thing that the folders of this project share. Its contract is checked on empty
tables (tests), on every write (store) and shown to users (docs/tables.md, the API).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from fleetmark.errors import DefinitionError

# The types a contract may use: DuckDB's name and the Polars type that carries it.
TYPES: Mapping[str, pl.DataType] = {
    "VARCHAR": pl.String(),
    "BOOLEAN": pl.Boolean(),
    "TINYINT": pl.Int8(),
    "SMALLINT": pl.Int16(),
    "INTEGER": pl.Int32(),
    "BIGINT": pl.Int64(),
    "UBIGINT": pl.UInt64(),
    "FLOAT": pl.Float32(),
    "DOUBLE": pl.Float64(),
    "TIMESTAMP": pl.Datetime("us"),
    "DATE": pl.Date(),
    "VARCHAR[]": pl.List(pl.String()),
    "INTEGER[]": pl.List(pl.Int32()),
    "BIGINT[]": pl.List(pl.Int64()),
    "DOUBLE[]": pl.List(pl.Float64()),
}

Period = Literal["hour", "day", "month"]


@dataclass(frozen=True, slots=True)
class Column:
    """One typed, documented column.

    `unit` is the unit of the value (s, bytes, ratio, ...); `null` says whether NULL (unknown) may
    stand in it; `volatile` marks bookkeeping (a path, a time of evaluation) that the content hash
    of a table leaves out. `decimals` of a DOUBLE: how many its values were printed with; sources'
    tables keep the nearest binary fraction that rounds to them, which takes half the space.
    """

    name: str
    type: str
    doc: str
    unit: str | None = None
    null: bool = True
    volatile: bool = False
    decimals: int | None = None

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise DefinitionError(
                f"column {self.name}: type {self.type} is not one of {', '.join(TYPES)}"
            )
        if not self.doc:
            raise DefinitionError(f"column {self.name}: say what it holds (doc)")


# Where a row came from. Appended to every table that sources write.
PROVENANCE = (
    Column(
        "file_id",
        "VARCHAR",
        "the file it was read from: ingest_file.file_id",
        null=False,
        volatile=True,
    ),
    Column(
        "line_no",
        "BIGINT",
        "line (or record, in formats without lines) in that file, from 1",
        null=False,
        volatile=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Table:
    """The contract of a table.

    grain      columns that make a row unique and are never NULL
    time       column of the event time; None for tables without time (inventories, manifests)
    end        for intervals: column of the end, NULL while open
    observed   for intervals: column that says until when an open row is known to have lasted
    period     how finely the table is partitioned by `time`
    partition  columns it is partitioned by beside time
    sort       order of rows inside a file
    latest     sources only: when a row comes again, the one greatest in these columns stays;
               empty: the first one stays
    """

    name: str
    doc: str
    grain: tuple[str, ...]
    columns: tuple[Column, ...]
    time: str | None = None
    end: str | None = None
    observed: str | None = None
    period: Period = "day"
    partition: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.column_names
        if len(set(names)) != len(names):
            raise DefinitionError(f"table {self.name}: a column is named twice")
        single = (self.time, self.end, self.observed)
        for column in (*self.grain, *self.sort, *self.latest, *self.partition, *single):
            if column is not None and column not in names:
                raise DefinitionError(f"table {self.name}: no column named {column}")
        if not self.grain:
            raise DefinitionError(f"table {self.name}: say what one row is (grain)")
        if not self.doc:
            raise DefinitionError(f"table {self.name}: say what it holds (doc)")

    @property
    def brief(self) -> str:
        """What it holds, in one line: the first sentence of `doc`."""
        first, dot, _ = " ".join(self.doc.split()).partition(". ")
        return first + dot.rstrip()

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def required(self) -> tuple[str, ...]:
        """Columns that may not be NULL: the grain, the time and whatever says so itself."""
        key = {*self.grain, *((self.time,) if self.time else ())}
        return tuple(c.name for c in self.columns if not c.null or c.name in key)

    def with_provenance(self) -> Table:
        """The table as stored when sources write it: its columns plus `file_id` and `line_no`."""
        return replace(self, columns=(*self.columns, *PROVENANCE))

    def polars_schema(self) -> dict[str, pl.DataType]:
        return {column.name: TYPES[column.type] for column in self.columns}

    def ddl(self) -> str:
        """`CREATE TABLE` body: names and types only; nulls are checked before every write."""
        return ", ".join(f'"{column.name}" {column.type}' for column in self.columns)

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.polars_schema())


def quote(name: str) -> str:
    """An SQL identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """An SQL string literal, quoted."""
    return "'" + value.replace("'", "''") + "'"
