"""Lines `TIME PERSON DOOR`: who went through which door."""

import polars as pl

from fleetmark.source import Context, Parsed, rejects, source
from fleetmark.table import Column, Table

PASSAGE = Table(
    name="passage",
    doc="Somebody went through a door.",
    grain=("cluster", "ts", "person"),
    time="ts",
    columns=(
        Column("cluster", "VARCHAR", "site"),
        Column("ts", "TIMESTAMP", "when"),
        Column("person", "VARCHAR", "who"),
        Column("door", "VARCHAR", "which door"),
    ),
)


@source(outputs=(PASSAGE,), sniff=lambda head, name: head[:1].isdigit())
def gate_log(lines: pl.DataFrame, context: Context) -> Parsed:
    """Gate log, one line a passage: ISO time, person, door."""
    parts = pl.col("text").str.split(" ")
    split = lines.with_columns(
        parts.list.get(0, null_on_oob=True)
        .str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
        .alias("ts"),
        parts.list.get(1, null_on_oob=True).alias("person"),
        parts.list.get(2, null_on_oob=True).alias("door"),
        parts.list.len().alias("n"),
    )
    good = (pl.col("n") == 3) & pl.col("ts").is_not_null()
    comment = pl.col("text").str.starts_with("#")
    return Parsed(
        {
            "passage": split.filter(good).select(
                "line_no",
                pl.lit(context.options["cluster"]).alias("cluster"),
                "ts",
                "person",
                "door",
            )
        },
        rejects(split.filter(~good & ~comment), "not TIME PERSON DOOR"),
        skipped=lines.filter(comment).height,
    )
