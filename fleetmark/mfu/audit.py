"""Recompute a published or logged figure, and say which convention reproduces it.

A figure is an entry of a CSV (or of JSON lines): what is claimed, and its inputs. Columns, all optional
but `quantity` and `published`: those of model_shape (see conventions.SHAPE), and

quantity           mfu or hfu (percent of the peak), tflops (TFLOP/s per GPU), days (to train)
published          the figure claimed; tolerance: how far off still counts, default half a unit of the
                   last digit printed
convention         the one it claims to follow
gpu_model precision gpu_count dense_tflops    dense_tflops overrules the peak that gpu_model has
step_s global_batch_size | tokens_per_gpu_s | token_count with duration_s or gpu_s    the rate
logged_tflops flop_count    what the run states instead of a shape
total_pflops       PFLOP/s over all GPUs, printed beside the figure: the two may differ by tolerance
known_mismatch     why the figure is known not to follow from its inputs
id, note           passed through
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from fleetmark.errors import InputError
from fleetmark.mfu.conventions import CONVENTIONS, SHAPE, by_convention
from fleetmark.mfu.peak import packaged, with_peak

TEXTS = (
    "id",
    "quantity",
    "published",
    "convention",
    "gpu_model",
    "precision",
    "known_mismatch",
    "note",
)
NUMBERS = (
    "tolerance", "gpu_count", "dense_tflops", "step_s", "global_batch_size", "tokens_per_gpu_s",
    "token_count", "duration_s", "gpu_s", "logged_tflops", "flop_count", "total_pflops",
)  # fmt: skip
QUANTITIES = ("mfu", "hfu", "tflops", "days")
DAY_S = 86_400.0
# Figures that rest on what the run states, not on a shape.
STATED: Mapping[str, str] = {
    "logged_rate": "TFLOP/s as logged by the peak, or as they are",
    "flop_total": "FLOP of the whole run by its GPU-seconds",
    "throughput": "tokens by the tokens per second of all GPUs",
    "gpu_hours": "GPU-hours by the number of GPUs",
}
RESULT = (
    "id", "quantity", "published", "verdict", "convention", "recomputed", "difference", "tolerance", "corrected",
    "dense_tflops", "peak_model", "reproduced_by", "reason",
)  # fmt: skip


def read_entries(path: Path) -> pl.DataFrame:
    """Entries of a CSV with a header, or of JSON lines. Raises InputError for what is neither."""
    try:
        text = path.read_text("utf-8-sig")
        if text.lstrip().startswith("{"):
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            found = pl.read_csv(text.encode(), infer_schema=False).rows(named=True)
    except (UnicodeDecodeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: neither CSV with a header nor JSON lines: {error}") from None
    return entries(found, str(path))


def entries(found: Iterable[object], where: str) -> pl.DataFrame:
    """Typed entries. Raises InputError naming the entry and column that is wrong."""
    kinds: dict[str, pl.DataType] = {
        **dict.fromkeys(TEXTS, pl.String()),
        **dict.fromkeys(NUMBERS, pl.Float64()),
        **SHAPE,
    }
    rows = []
    for place, entry in enumerate(found, 1):
        if not isinstance(entry, dict):
            raise InputError(f"{where}: entry {place} is no object")
        if unknown := set(entry) - set(kinds):
            raise InputError(
                f"{where}: unknown columns {', '.join(sorted(unknown))}; see the audit's"
            )
        texts = {name: str(v) for name, v in entry.items() if v is not None and str(v) != ""}
        row = {name: _typed(texts.get(name), kind) for name, kind in kinds.items()}
        if wrong := [n for n, v in row.items() if v is None and n in texts]:
            raise InputError(
                f"{where}: entry {place}: {wrong[0]} {texts[wrong[0]]!r} is no {kinds[wrong[0]]}"
            )
        if row["quantity"] not in QUANTITIES:
            raise InputError(f"{where}: entry {place}: quantity is one of {', '.join(QUANTITIES)}")
        if row["convention"] not in (None, *CONVENTIONS, *STATED):
            raise InputError(f"{where}: entry {place}: no convention {row['convention']!r}; there are "
                             f"{', '.join((*CONVENTIONS, *STATED))}")  # fmt: skip
        rows.append(row | {"place": place})
    return pl.DataFrame(rows, schema={"place": pl.Int64(), **kinds}, orient="row")


def _typed(text: str | None, kind: pl.DataType) -> object:
    if text is None or kind == pl.String():
        return text
    if kind == pl.Boolean():
        return {"true": True, "false": False}.get(text.lower())
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if kind == pl.Int64() and number.is_integer() else number


def audit(found: pl.DataFrame) -> pl.DataFrame:
    """One row per entry, columns RESULT. `corrected` is the figure without recomputation or fault.

    verdict  reproduced; is_hfu: only with recomputation counted, though claimed as MFU or as a plain
             rate; other_convention: not by the one it claims; formula_error: only by a formula with a known fault; known_mismatch: the entry itself
             says why; contradicts_itself: reproduced, but the total printed beside it says another
             figure; not_reproduced; not_computable: inputs are missing; not_printed: nothing was claimed
    """
    peaked = with_peak(found, packaged()).rename({"dense_tflops_right": "listed_tflops"})
    known = peaked.with_columns(
        pl.coalesce("dense_tflops", "listed_tflops").alias("dense_tflops"),
        pl.coalesce(
            "tokens_per_gpu_s",
            pl.col("global_batch_size")
            * pl.col("seq_len")
            / pl.col("step_s")
            / pl.col("gpu_count"),
            pl.col("token_count") / pl.col("gpu_s"),
            pl.col("token_count") / pl.col("duration_s") / pl.col("gpu_count"),
        ).alias("rate"),
        pl.col("published").cast(pl.Float64, strict=False).alias("claimed"),
        pl.coalesce("tolerance", _half_digit(pl.col("published"))).alias("tolerance"),
    )
    values = pl.concat([_by_shape(known), _by_statement(known)], how="vertical_relaxed")
    chosen = _chosen(values.filter(pl.col("recomputed").is_not_null()))
    counterpart = {c.id: c.corrected for c in CONVENTIONS.values()}
    right = chosen.select(
        "place", pl.col("by").replace_strict(counterpart, default=None, return_dtype=pl.String)
    ).join(values.select("place", "by", corrected="recomputed"), on=("place", "by"))
    return (
        known.join(chosen, on="place", how="left", maintain_order="left")
        .join(right.drop("by"), on="place", how="left", maintain_order="left")
        .with_columns(_verdict())
        .with_columns(_reason())
        .with_columns(
            pl.coalesce("by", "convention").alias("convention"),
            (pl.col("recomputed") - pl.col("claimed")).alias("difference"),
        )
        .select(RESULT)
    )


def _half_digit(text: pl.Expr) -> pl.Expr:
    decimals = text.str.extract(r"\.(\d+)", 1).str.len_chars().fill_null(0)
    return 0.5 * pl.lit(10.0).pow(-decimals.cast(pl.Float64))


_JUDGED = ("place", "quantity", "claimed", "tolerance", "convention")


def _by_shape(known: pl.DataFrame) -> pl.DataFrame:
    renamed = known.rename({"convention": "stated"})
    flops, rate = pl.col("flops_per_token"), pl.col("rate")
    total = pl.col("gpu_count") * pl.col("logged_tflops") * 1e12
    value = (
        pl.when(pl.col("quantity").is_in(["mfu", "hfu"]))
        .then(flops * rate / (pl.col("dense_tflops") * 1e12) * 100)
        .when(pl.col("quantity") == "tflops")
        .then(flops * rate / 1e12)
        .otherwise(flops * pl.col("token_count") / total / DAY_S)
    )
    computed = by_convention(renamed, CONVENTIONS).with_columns(value.alias("recomputed"))
    return computed.rename({"convention": "by", "stated": "convention"}).select(
        *_JUDGED, "by", "kind", "recomputed"
    )


def _by_statement(known: pl.DataFrame) -> pl.DataFrame:
    percent = pl.col("quantity").is_in(["mfu", "hfu"])
    is_rate, is_days = pl.col("quantity") == "tflops", pl.col("quantity") == "days"
    share = pl.col("logged_tflops") / pl.col("dense_tflops") * 100
    achieved = pl.col("flop_count") / pl.col("gpu_s") / 1e12
    expressions = {
        "logged_rate": pl.when(percent).then(share),
        "flop_total": pl.when(is_rate)
        .then(achieved)
        .when(percent)
        .then(achieved / pl.col("dense_tflops") * 100),
        "throughput": pl.when(is_days).then(
            pl.col("token_count") / pl.col("tokens_per_gpu_s") / pl.col("gpu_count") / DAY_S
        ),
        "gpu_hours": pl.when(is_days).then(pl.col("gpu_s") / pl.col("gpu_count") / DAY_S),
    }
    return pl.concat(
        known.select(
            *_JUDGED, pl.lit(name).alias("by"), pl.lit("stated").alias("kind"),
            value.alias("recomputed"),
        )
        for name, value in expressions.items()
    )  # fmt: skip


def _chosen(values: pl.DataFrame) -> pl.DataFrame:
    """Per entry the convention that answers for it, and all that reproduce the figure.

    The convention that the entry claims, else the nearest: one of the claimed quantity first, one that
    counts recomputation next, a faulty formula last.
    """
    distance = (pl.col("recomputed") - pl.col("claimed")).abs()
    wanted = pl.when(pl.col("quantity") == "hfu").then(pl.lit("hfu")).otherwise(pl.lit("mfu"))
    rank = (
        pl.when((pl.col("kind") == wanted) | (pl.col("kind") == "stated")).then(0)
        .when(pl.col("kind") == "error").then(2).otherwise(1)
    )  # fmt: skip
    judged = values.with_columns(
        (distance <= pl.col("tolerance") + 1e-9).fill_null(value=False).alias("within"),
        (pl.col("by") == pl.col("convention")).fill_null(value=False).alias("is_claimed"),
        rank.alias("rank"),
        distance.alias("distance"),
    )
    is_right = pl.col("is_claimed") & pl.col("within")
    judged = judged.sort(
        "place", ~is_right, ~pl.col("within"), ~pl.col("is_claimed"), "rank", "distance", "by"
    )
    return judged.group_by("place", maintain_order=True).agg(
        pl.col("by", "kind", "recomputed", "within").first(),
        pl.col("by").filter("within").str.join(" ").alias("reproduced_by"),
    )


def _verdict() -> pl.Expr:
    printed_share = (
        pl.col("total_pflops") * 1e3 / pl.col("gpu_count") / pl.col("dense_tflops") * 100
    )
    apart = (printed_share - pl.col("claimed")).abs()
    contradicts = (apart > pl.col("tolerance")).fill_null(value=False)
    return (
        pl.when(pl.col("claimed").is_null()).then(pl.lit("not_printed"))
        .when(pl.col("recomputed").is_null()).then(pl.lit("not_computable"))
        .when(~pl.col("within")).then(pl.lit("not_reproduced"))
        .when(pl.col("known_mismatch").is_not_null()).then(pl.lit("known_mismatch"))
        .when(pl.col("kind") == "error").then(pl.lit("formula_error"))
        .when((pl.col("kind") == "hfu") & (pl.col("quantity") != "hfu")).then(pl.lit("is_hfu"))
        .when((pl.col("by") != pl.col("convention")).fill_null(value=False))
        .then(pl.lit("other_convention"))
        .when(contradicts).then(pl.lit("contradicts_itself"))
        .otherwise(pl.lit("reproduced"))
    ).alias("verdict")  # fmt: skip


def _reason() -> pl.Expr:
    share = pl.col("total_pflops") * 1e3 / pl.col("gpu_count") / pl.col("dense_tflops") * 100
    formulas = {c.id: f"{c.formula}; {c.source}" for c in CONVENTIONS.values()} | dict(STATED)
    formula = pl.col("by").replace_strict(formulas, default=None)
    verdict = pl.col("verdict")
    return (
        pl.when(verdict == "known_mismatch").then("known_mismatch")
        .when(verdict == "is_hfu")
        .then(pl.concat_str(pl.lit("recomputation is counted: "), formula))
        .when(verdict == "contradicts_itself")
        .then(pl.format("{} PFLOP/s printed beside it are {} % of the peak",
                        pl.col("total_pflops"), share.round(1)))
        .when(verdict == "not_reproduced")
        .then(pl.concat_str(pl.lit("nearest: "), formula))
        .when(verdict == "not_computable")
        .then(pl.lit("no convention has all its inputs: shape, rate and peak"))
        .otherwise(formula)
    ).alias("reason")  # fmt: skip
