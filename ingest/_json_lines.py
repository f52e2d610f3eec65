"""JSON lines whose fields are known by name: decoded by DuckDB, a chunk at once, as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import duckdb
import polars as pl

# A length or a time may be written in any of these units: step_s, step_ms, step_us, step_ns.
UNITS = {"_s": 1.0, "_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9}
EARLIEST, LATEST = pl.datetime(2000, 1, 1), pl.datetime(2100, 1, 1)


def decoded(lines: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """line_no, is_object, and the text of every field there may be, as column `f:NAME`."""
    fields = list(dict.fromkeys(names))
    shape = json.dumps(dict.fromkeys(fields, "VARCHAR"))
    with duckdb.connect() as connection:
        connection.register("lines", lines.to_arrow())
        connection.execute("SET VARIABLE shape = $1", [shape])
        found = connection.sql(
            "WITH object AS (SELECT line_no, if(json_valid(text) AND json_type(text) = 'OBJECT', "
            "text, NULL) AS text FROM lines) SELECT line_no, text IS NOT NULL AS is_object, "
            "json_transform(text, getvariable('shape')) AS record FROM object ORDER BY line_no"
        ).pl()
    return found.with_columns(
        pl.col("record").struct.rename_fields([f"f:{n}" for n in fields])
    ).unnest("record")


def unit(name: str) -> float:
    """Seconds in the unit that a field's name ends with; 1 where it names none."""
    return next((factor for ending, factor in UNITS.items() if name.endswith(ending)), 1.0)


def time_of(names: Sequence[str], zone: str | None) -> pl.Expr:
    """UTC, from the first of the fields that holds a time between 2000 and 2100; else NULL.

    Numbers are since 1970 in the unit of the name; texts are RFC 3339, or local times of `zone`.
    """
    readings = []
    for name in names:
        given = pl.col(f"f:{name}")
        number = given.cast(pl.Float64, strict=False)
        micros = (number * (unit(name) * 1e6)).round()
        whole = given.cast(pl.Int64, strict=False)
        exact = whole // 1000 if name.endswith("_ns") else whole if name.endswith("_us") else None
        micros = micros if exact is None else pl.coalesce(exact.cast(pl.Float64), micros)
        is_time = micros.is_between(9.4e14, 4.2e15)
        readings.append(pl.when(is_time).then(micros).cast(pl.Int64).cast(pl.Datetime("us")))
        spaced = given.str.replace(" ", "T", literal=True).str.replace("Z$", "+00:00")
        zoned = spaced.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="us", strict=False)
        readings.append(zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None))
        if zone is not None:
            local = spaced.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)
            aware = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
            readings.append(aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None))
    ts = pl.coalesce(readings)
    return pl.when(ts.is_between(EARLIEST, LATEST, closed="left")).then(ts)
