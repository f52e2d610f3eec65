"""Time cut among claims so that every microsecond of an allocation has one owner.

Claims stand in layers. Of the layers that claim a moment the lowest number owns it; within a layer the
claim that began first keeps what it has. What nobody claims is unexplained. So the parts add up to the
allocation whatever claims say: order, overlaps, gaps and clock steps only move time between owners.
"""

from __future__ import annotations

import polars as pl

DAY_US = 86_400_000_000
# What each layer holds, first owner first.
LAYERS = (
    "evaluation", "checkpoint_load", "checkpoint_save", "data", "init", "step", "gap", "edge", "idle",
)  # fmt: skip
CLAIM = {
    "run": pl.UInt32(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "layer": pl.Int64(),
    "class": pl.String(),
    "culprit": pl.String(),
    "in_step": pl.Boolean(),
}
OWNER = ["class", "culprit", "in_step"]


def layer(name: str) -> int:
    return LAYERS.index(name)


def claims(rows: pl.DataFrame, name: str, **values: pl.Expr | str) -> pl.DataFrame:
    """Rows (run, start, end and what `values` do not give) as claims of a layer."""
    given = {k: pl.lit(v) if isinstance(v, str) else v for k, v in values.items()}
    absent = {
        k: pl.lit(None if k == "culprit" else False, CLAIM[k])
        for k in ("culprit", "in_step") if k not in given and k not in rows.columns
    }  # fmt: skip
    return rows.with_columns(**given, **absent, layer=pl.lit(layer(name), pl.Int64)).select(
        pl.col(name).cast(kind) for name, kind in CLAIM.items()
    )


def ledger(runs: pl.DataFrame, claimed: pl.DataFrame, cuts: pl.DataFrame) -> pl.DataFrame:
    """Segments (run, start, end, OWNER) of each run's [start, end), in order, days apart.

    runs   run, start, end in microseconds
    cuts   run, at: further moments at which segments are to end
    """
    own = _disjoint(runs, claimed)
    edges = pl.concat([
        own.select("run", at="start", layer="layer", step=pl.lit(1, pl.Int64)),
        own.select("run", at="end", layer="layer", step=pl.lit(-1, pl.Int64)),
        *(frame.select("run", "at", layer=pl.lit(-1, pl.Int64), step=pl.lit(0, pl.Int64))
          for frame in _bounds(runs, cuts)),
    ])  # fmt: skip
    active = (
        edges.group_by("run", "at")
        .agg(
            pl.col("step").filter(pl.col("layer") == n).sum().alias(str(n))
            for n in range(len(LAYERS))
        )
        .sort("run", "at")
        # Every claim ends within its run, so sums never carry over to the next.
        .with_columns(pl.col(str(n)).cum_sum() for n in range(len(LAYERS)))
    )
    owner = pl.coalesce(
        pl.when(pl.col(str(n)) > 0).then(pl.lit(n, pl.Int64)) for n in range(len(LAYERS))
    )
    pieces = active.select(
        "run", owner.alias("layer"), start="at", end=pl.col("at").shift(-1).over("run")
    ).filter(pl.col("end").is_not_null())
    named = pieces.sort("start").join_asof(
        own.select("run", "layer", "start", *OWNER).sort("start"),
        on="start", by=["run", "layer"], check_sortedness=False,
    )  # fmt: skip
    return named.select(
        "run", "start", "end",
        pl.col("class").fill_null("unexplained"), "culprit", pl.col("in_step").fill_null(value=False),
    ).sort("run", "start")  # fmt: skip


def _disjoint(runs: pl.DataFrame, claimed: pl.DataFrame) -> pl.DataFrame:
    """Claims cut to their run, and to what earlier claims of their layer leave."""
    inside = claimed.join(runs.select("run", first="start", last="end"), on="run").with_columns(
        pl.max_horizontal("start", "first").alias("start"),
        pl.min_horizontal("end", "last").alias("end"),
    )
    # The order of equal starts must not depend on the order of rows.
    ordered = inside.filter(pl.col("start") < pl.col("end")).sort(
        "run", "layer", "start", "end", *OWNER, nulls_last=True
    )
    taken = pl.col("end").cum_max().shift(1).over("run", "layer")
    left = ordered.with_columns(pl.max_horizontal("start", taken).alias("start"))
    return left.filter(pl.col("start") < pl.col("end")).select(*CLAIM)


def _bounds(runs: pl.DataFrame, cuts: pl.DataFrame) -> tuple[pl.DataFrame, ...]:
    """Starts, ends, midnights, and the cuts that lie within their run."""
    first = (pl.col("start") // DAY_US + 1) * DAY_US
    midnights = (
        runs.select("run", "end", at=pl.int_ranges(first, pl.col("end"), DAY_US))
        .explode("at")
        .filter(pl.col("at").is_not_null())
    )
    inside = cuts.join(runs, on="run").filter(
        pl.col("at").is_between("start", "end", closed="none")
    )
    lasting = runs.filter(pl.col("start") < pl.col("end"))
    return (
        lasting.select("run", at="start"),
        lasting.select("run", at="end"),
        midnights.select("run", "at"),
        inside.select("run", "at"),
    )


def merged(segments: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Neighbours that agree in `keys` as one segment; midnight stays a cut."""
    joins = pl.all_horizontal(
        pl.col("end").shift(1) == pl.col("start"),
        pl.col("start") % DAY_US != 0,
        *(pl.col(k).eq_missing(pl.col(k).shift(1)) for k in ["run", *keys]),
    ).fill_null(value=False)
    return (
        segments.sort("run", "start")
        .with_columns((~joins).cum_sum().alias("piece"))
        .group_by("piece", maintain_order=True)
        .agg(pl.col("run", *keys, "start").first(), pl.col("end").last())
        .drop("piece")
    )
