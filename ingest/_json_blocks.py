"""JSON records that stand over several lines, put together: `jq .`, `gcloud --format=json`, webhooks."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

_BARE = pl.col("text").str.strip_chars()


@dataclass(frozen=True, slots=True)
class Blocks:
    """`lines` with each indented record as one line, numbered by its first.

    skipped    lines that went into the record above them
    held_from  where a record begins that the chunk does not hold whole; None if it ends with one
    """

    lines: pl.DataFrame
    skipped: int = 0
    held_from: int | None = None


def gathered(lines: pl.DataFrame, *, at_end: bool) -> Blocks:
    """Put indented records together. A record opens with a line of `{` alone and closes with the
    next `}` of the same indent; the first one tells the indent, so that inner objects stay inside.
    """
    opening = lines.filter(_BARE == "{")
    if opening.is_empty():
        return Blocks(lines)
    first = opening["text"][0]
    margin = len(first) - len(first.lstrip())
    own = pl.col("text").str.len_chars() - pl.col("text").str.strip_chars_start().str.len_chars()
    marked = lines.with_columns(
        (_BARE.str.starts_with("{") & (own == margin)).alias("begins"),
        (_BARE == "{").alias("opens"),
        (_BARE.is_in(["}", "},"]) & (own == margin)).alias("ends"),
    ).with_columns(pl.col("begins").cum_sum().alias("block"))
    ended = pl.col("ends").cast(pl.Int64).cum_sum().over("block") - pl.col("ends").cast(pl.Int64)
    opened = (pl.col("begins") & pl.col("opens")).any().over("block")
    marked = marked.with_columns((opened & (pl.col("block") > 0) & (ended == 0)).alias("inside"))
    blocks = (
        marked.filter("inside")
        .group_by("block", maintain_order=True)
        .agg(pl.col("line_no").first(), _BARE.str.join(" "), pl.col("ends").any(), pl.len().alias("size"))
    )  # fmt: skip
    held_from = None
    last = marked["block"].max()
    if not at_end and blocks.height and blocks["block"][-1] == last and not blocks["ends"][-1]:
        held_from = int(blocks["line_no"][-1])
        blocks = blocks.head(-1)
        marked = marked.filter(pl.col("line_no") < held_from)
    whole = pl.concat(
        [
            marked.filter(~pl.col("inside")).select("line_no", "text"),
            blocks.select("line_no", "text"),
        ]
    ).sort("line_no")
    return Blocks(whole, int(blocks["size"].sum()) - blocks.height, held_from)
