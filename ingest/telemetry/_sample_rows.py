"""From samples, one per line, to rows: wide for the registry's signals, narrow for the rest."""

from __future__ import annotations

import polars as pl

from fleetmark.table import TYPES

from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._exposition import labels_of
from ._gpu_series import entity_frame
from ._signals import REGISTRY, SENTINELS, SIGNALS, STALE, Spelling

# What the registry says of each exporter name.
_NAMES = pl.DataFrame(
    [
        (one.key, number, s.table, one.link, one.factor, s.min, s.max, s.instance, s.zero)
        for number, s in enumerate(REGISTRY)
        for one in s.spellings
    ],
    schema={
        "name": pl.String(),
        "signal": pl.UInt16(),
        "table": pl.String(),
        "name_link": pl.Int32(),
        "factor": pl.Float64(),
        "min": pl.Float64(),
        "max": pl.Float64(),
        "instance": pl.Boolean(),
        "zero": pl.String(),
    },
    orient="row",
)
# Names under which an exporter prints several quantities, told apart by labels.
_SHARED: dict[str, list[Spelling]] = {}
for _spelling in (one for signal in REGISTRY for one in signal.spellings if one.labels):
    _SHARED.setdefault(_spelling.name, []).append(_spelling)
# Pivoted columns, named by number, under their names and rounded to what is worth keeping.
_COLUMNS = [
    pl.col(str(n)).round(signal.decimals).cast(TYPES[signal.type]).alias(signal.column)
    for n, signal in enumerate(SIGNALS)
]
_COLUMN_NAMES = pl.DataFrame(
    [(number, signal.column, signal.unit) for number, signal in enumerate(REGISTRY)],
    schema={"signal": pl.UInt16(), "column": pl.String(), "unit": pl.String()},
    orient="row",
)
_GRAIN = ("node", "gpu_uuid", "mig_instance", "ts")
_INT64_BLANK = 2.0**63  # what DCGM's four 64-bit blanks become as doubles


def told_apart(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples (name, labels, ... as categories) with the registry's key as the name, where one name
    stands for several quantities.
    """
    names = samples["name"].unique().cast(pl.String)
    shared = [name for name in names if name in _SHARED]
    if not shared:
        return samples
    text = samples.with_columns(pl.col("name", "labels").cast(pl.String))
    pairs = text.filter(pl.col("name").is_in(shared)).select("name", "labels").unique()
    keys = [_key(name, labels) for name, labels in pairs.iter_rows()]
    named = text.join(
        pairs.with_columns(pl.Series("key", keys, dtype=pl.String)),
        on=["name", "labels"],
        how="left",
        maintain_order="left",
    )
    return named.with_columns(
        pl.coalesce("key", "name").cast(samples.schema["name"]).alias("name"),
        pl.col("labels").cast(samples.schema["labels"]),
    ).drop("key")


def _key(name: str, labels_text: str) -> str | None:
    labels = set(labels_of(labels_text) or ())
    return next((one.key for one in _SHARED[name] if labels.issuperset(one.labels)), None)


def signals_of(names: pl.Series) -> pl.DataFrame:
    """What the registry says of names (categories), one row each."""
    distinct = names.unique().alias("name")
    texts = distinct.cast(pl.String).to_frame()
    known = texts.join(_NAMES, on="name", how="left", maintain_order="left").drop("name")
    return known[positions(names, distinct)]


def positions(values: pl.Series, distinct: pl.Series) -> pl.Series:
    """Where in `distinct` each of `values` stands; both categories of one call, without NULLs.

    By the codes of the categories: a join would hash every value again.
    """
    codes = distinct.to_physical()
    size = int(codes.max() or 0) + 1  # type: ignore[arg-type]  # codes are integers
    numbers = pl.int_range(codes.len(), dtype=pl.UInt32, eager=True)
    blank = pl.Series([0], dtype=pl.UInt32).new_from_index(0, size)
    return blank.scatter(codes, numbers).gather(values.to_physical())


def wide_rows(samples: pl.DataFrame, series: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Rows of gpu_sample (without `cluster`) from samples of signals on GPUs, by line number.

    Samples may say themselves, in `reason`, why a value is none. A signal of the whole GPU that is printed once per MIG instance or pod lands in one cell.
    """
    cells, places = _cells(samples, series)
    values, conflicts = (
        _settled(cells) if _repeats(cells, places.height) else (cells, cells.clear())
    )
    wide = _spread(values, places.height)
    rows = (
        places.hstack(wide)
        .join(entity_frame(series), on="entity", how="left", maintain_order="left")
        .join(pages, on="page", how="left", maintain_order="left")
        .with_columns(ts=pl.coalesce("own_ts", "page_ts"), node=pl.coalesce("node", "page_node"))
        .drop("page", "own_ts", "entity", "page_ts", "page_node", "problem")
    )
    rows = _with_quality(rows, cells, values, conflicts).drop("row")
    return _merged(rows) if rows.select(pl.struct(_GRAIN).is_duplicated().any()).item() else rows


def _cells(samples: pl.DataFrame, series: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Samples with `row` (page, time and GPU or instance) and the value in the column's unit; and
    the rows: row, line_no, page, own_ts, entity, in the order of lines.

    `value` is NULL where the number is no measurement; `is_flawed` marks those.
    """
    value = pl.col("value") * pl.col("factor")
    usable = value.is_between("min", "max") & (pl.col("zero").is_null() | (value != 0))
    gpu, instance = (series[who].gather(samples["series"]) for who in ("gpu", "entity"))
    cells = samples.select_seq(
        "line_no", "page", "own_ts",
        pl.when("instance").then(instance).otherwise(gpu).alias("entity"),
        "signal", "value_text", "zero",
        pl.col("reason") if "reason" in samples.columns else pl.lit(None, pl.String).alias("reason"),
        pl.col("value").alias("printed"),
        pl.when(usable).then(value).alias("value"),
        (~usable).fill_null(value=True).alias("is_flawed"),
    )  # fmt: skip
    if cells["own_ts"].null_count() == cells.height:
        key = cells["page"].cast(pl.Int64) * series.height * 2 + cells["entity"]
    else:
        key = _numbered(cells["own_ts"]) * (int(cells["page"].max() or 0) + 1) + cells["page"]  # type: ignore[arg-type]  # pages are integers
        key = key * series.height * 2 + cells["entity"]
    first = key.arg_unique().sort()
    order = key.gather(first).arg_sort()
    row = order.gather(key.gather(first).gather(order).search_sorted(key))
    cells = cells.with_columns(row.alias("row"))
    return cells, cells[first].select("row", "line_no", "page", "own_ts", "entity")


def _numbered(times: pl.Series) -> pl.Series:
    """A number for each time, from 1; 0 for none."""
    us = times.to_physical()
    return (
        us.unique().drop_nulls().sort().search_sorted(us).cast(pl.Int64).set(us.is_null(), -1) + 1
    )


def _repeats(cells: pl.DataFrame, row_count: int) -> bool:
    """Is a cell given twice? By marking cells: counting distinct ones would hash them."""
    blank = pl.Series([0], dtype=pl.UInt8).new_from_index(0, row_count * len(SIGNALS))
    return int(blank.scatter(cells["row"] * len(SIGNALS) + cells["signal"], 1).sum()) < cells.height


def _spread(cells: pl.DataFrame, row_count: int) -> pl.DataFrame:
    """Values of cells as one column per signal, by `row`.

    Each value is put at its place in one long column, of which the columns are slices: a pivot
    would group the cells again.
    """
    present = cells["signal"].unique().sort()
    place = present.search_sorted(cells["signal"]).cast(pl.Int64) * row_count + cells["row"]
    blank = pl.Series([None], dtype=pl.Float64).new_from_index(0, present.len() * row_count)
    flat = blank.scatter(place, cells["value"])
    spread = {str(n): flat.slice(at * row_count, row_count) for at, n in enumerate(present)}
    return pl.DataFrame(spread).select_seq(_COLUMNS[number] for number in present)


def _settled(cells: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One value per cell (the first that is one), and the cells that were given two values."""
    valid = pl.col("value").drop_nulls()
    grouped = cells.group_by("row", "signal", maintain_order=True).agg(
        valid.first(), (valid.n_unique() > 1).alias("differs")
    )
    return grouped.drop("differs"), grouped.filter("differs")


def _with_quality(
    rows: pl.DataFrame, cells: pl.DataFrame, values: pl.DataFrame, conflicts: pl.DataFrame
) -> pl.DataFrame:
    """Rows with `quality`: from flawed cells that stayed empty, and from conflicts."""
    flawed = cells.filter("is_flawed")
    if flawed.is_empty() and conflicts.is_empty():
        return rows.with_columns(quality=pl.lit([], pl.List(pl.String)))
    empty = values.filter(pl.col("value").is_null()).select("row", "signal").unique()
    notes = [
        flawed.join(empty, on=["row", "signal"], how="semi").select("row", "signal", _reason()),
        conflicts.select("row", "signal", pl.lit("conflict").alias("reason")),
    ]
    quality = (
        pl.concat(notes)
        .join(_COLUMN_NAMES, on="signal", how="left")
        .group_by("row")
        .agg(pl.format("{}:{}", "column", "reason").unique().sort().alias("quality"))
    )
    return rows.join(quality, on="row", how="left", maintain_order="left").with_columns(
        pl.col("quality").fill_null([])
    )


def _reason() -> pl.Expr:
    """Why a printed value is no measurement."""
    text = pl.col("value_text").str.replace(r"\.0*$", "")
    printed = pl.col("printed")
    reasons = {**SENTINELS, STALE: "stale"}
    exact = pl.when(printed.is_between(0, 2.0**53)).then(printed).cast(pl.Int64).cast(pl.String)
    return (
        pl.when(pl.col("reason").is_not_null()).then("reason")
        .when(pl.col("zero").is_not_null() & (printed == 0)).then("zero")
        .when(printed.is_nan()).then(pl.lit("not_a_number"))
        .when(printed.is_infinite()).then(pl.lit("infinite"))
        .otherwise(
            pl.coalesce(
                text.replace_strict(reasons, default=None, return_dtype=pl.String),
                exact.replace_strict(SENTINELS, default=None, return_dtype=pl.String),
                pl.when(printed == _INT64_BLANK).then(pl.lit("sentinel")),
                pl.lit("out_of_range"),
            )
        )
        .alias("reason")
    )  # fmt: skip


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of one GPU and time from several pages or host spellings, as one; the first stays."""
    kept = pl.exclude(*_GRAIN, "line_no", "quality").drop_nulls().first()
    notes = pl.col("quality").explode(empty_as_null=True).drop_nulls().unique().sort()
    return rows.group_by(_GRAIN, maintain_order=True).agg(pl.col("line_no").min(), kept, notes)


def extra_rows(samples: pl.DataFrame, series: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Rows of gpu_sample_extra (without `cluster`) from all other samples."""
    if samples.is_empty():
        return GPU_SAMPLE_EXTRA.empty().drop("cluster")
    value = pl.col("value")
    number = value.is_finite() & (value.abs() != _INT64_BLANK)
    scaled = value * pl.col("factor")
    known = pl.col("signal").is_not_null()
    labels = series.select("series", "node", "gpu_uuid", pl.col("labels_json").alias("labels"))
    return (
        samples.join(labels, on="series", how="left", maintain_order="left")
        .join(pages, on="page", how="left", maintain_order="left")
        .join(_COLUMN_NAMES, on="signal", how="left", maintain_order="left")
        .select(
            "line_no",
            pl.coalesce("node", "page_node").alias("node"),
            "gpu_uuid",
            pl.coalesce("own_ts", "page_ts").alias("ts"),
            pl.coalesce("column", pl.col("name").cast(pl.String)).alias("field"),
            pl.when(known & scaled.is_between("min", "max")).then(scaled)
            .when(~known & number).then(value).alias("value"),
            "unit",
            "labels",
        )
        .unique(["node", "ts", "field", "labels"], keep="first", maintain_order=True)
    )  # fmt: skip
