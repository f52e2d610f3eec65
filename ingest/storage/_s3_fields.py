"""The fields of S3 access lines, typed: cut at quotes and spaces as columns.

Expressions stand at module level because building them costs as much as running them on a small
chunk.
"""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from ._s3_line import HEAD, MIDDLE, NONE, SEPARATOR, TAIL, UTC_ZONE

NUMBERS = {
    "status": "HTTP status",
    "sent": "bytes sent",
    "size": "object size",
    "total": "total time",
    "turnaround": "turn-around time",
}
_EDGES = ("head_end", "head_over", "middle_start", "middle_end", "middle_over", "tail_start")
_CLOCK = "[%d/%b/%Y:%H:%M:%S"

_QUOTES = ("line_no", pl.col("text").str.split_exact('"', 7).alias("cut"))
_THREE_QUOTED = pl.all_horizontal(
    pl.col("field_6").is_not_null(),
    pl.col("field_7").is_null(),
    pl.col("field_4") == " ",
    ~pl.col("field_6").str.contains("  ", literal=True),
    ~pl.col("field_6").str.ends_with(" "),
).fill_null(value=False)
_PIECES = (
    "line_no",
    pl.col("field_0").alias("head"),
    pl.col("field_1").alias("uri"),
    pl.col("field_2").alias("middle"),
    pl.col("field_3").alias("referer"),
    pl.col("field_5").alias("agent"),
    pl.col("field_6").alias("tail"),
)


def _split(separator: str) -> tuple[str | pl.Expr, ...]:
    head = pl.col("head").str.split_exact(separator, len(HEAD) + 1)
    middle = pl.col("middle").str.split_exact(separator, len(MIDDLE) + 2)
    tail = pl.col("tail").str.splitn(separator, len(TAIL) + 1)
    return (
        "line_no",
        "uri",
        "referer",
        "agent",
        head.struct.rename_fields([*HEAD, "head_end", "head_over"]),
        middle.struct.rename_fields(["middle_start", *MIDDLE, "middle_end", "middle_over"]),
        tail.struct.rename_fields(["tail_start", *TAIL]),
    )


def _is_bad(name: str) -> pl.Expr:
    value = pl.col(f"{name}_value")
    return (value.is_null() & (pl.col(name) != NONE)) | (value < 0).fill_null(value=False)


_SPLITS = {separator: _split(separator) for separator in (" ", SEPARATOR)}
_VALUES = (
    pl.col("clock").str.to_datetime(_CLOCK, time_unit="us", strict=False).alias("ts"),
    pl.col("status").cast(pl.Int16, strict=False).alias("status_value"),
    *(
        pl.col(name).cast(pl.Int64, strict=False).alias(f"{name}_value")
        for name in NUMBERS
        if name != "status"
    ),
)
_GOOD = (
    pl.all_horizontal(
        pl.col("head_over").is_null(),
        pl.col("head_end") == "",
        pl.col("owner") != "",
        pl.col("zone") == UTC_ZONE,
        pl.col("request_id") != NONE,
        pl.col("middle_over").is_null(),
        pl.col("middle_start") == "",
        pl.col("middle_end") == "",
        pl.col("error") != "",
        pl.col("tail_start") == "",
        pl.col("ts").is_not_null(),
        *(~_is_bad(name) for name in NUMBERS),
    )
    .fill_null(value=False)
    .alias("good")
)
_REASON = pl.coalesce(
    pl.when(pl.col("ts").is_null()).then(
        pl.format("time {} {} is not [dd/Mon/yyyy:HH:MM:SS +hhmm]", "clock", "zone")
    ),
    *(
        pl.when(_is_bad(name)).then(
            pl.format("{} {} is neither - nor a number that fits", pl.lit(doc), name)
        )
        for name, doc in NUMBERS.items()
    ),
    pl.lit("fields are not where they belong"),
).alias("reason")


def cut_columns(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """PIECES of the lines that have three quoted fields and no quote else, and all other lines."""
    cut = lines.select_seq(_QUOTES).unnest("cut")
    regular = cut.select(_THREE_QUOTED).to_series()
    pieces = cut.select_seq(_PIECES).filter(regular)
    return pieces.with_columns(_single_spaced(pieces["head"])), lines.filter(~regular)


def _single_spaced(head: pl.Series) -> pl.Series:
    where = head.str.contains("  ", literal=True).arg_true()
    if where.is_empty():
        return head
    return head.scatter(where, head.gather(where).str.replace_all(" {2,}", " "))


def typed_fields(pieces: pl.DataFrame) -> pl.DataFrame:
    """Typed fields of PIECES, and `good` where each is what it should be."""
    special = pieces["head"].str.contains(SEPARATOR, literal=True)
    if not special.any():
        return _typed(pieces, " ")
    return pl.concat(
        [_typed(pieces.filter(~special), " "), _typed(pieces.filter(special), SEPARATOR)]
    )


def _typed(pieces: pl.DataFrame, separator: str) -> pl.DataFrame:
    split = pieces.lazy().select_seq(_SPLITS[separator]).unnest("head", "middle", "tail")
    typed = split.with_columns_seq(_VALUES).with_columns_seq(_GOOD).drop(_EDGES)
    return typed.collect(engine="in-memory")


def problems(bad: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """Rejects for lines that split well and hold a time or a number that is none."""
    reasons = bad.select("line_no", _REASON)
    return lines.join(reasons, on="line_no", how="inner").select(*REJECTS_SCHEMA)
