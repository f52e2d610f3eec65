"""MFU of training jobs under every convention whose inputs are known."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from fleetmark.mfu.conventions import CONVENTIONS, DEFAULT, EXECUTED, SHAPE, by_convention
from fleetmark.mfu.peak import ASSUMED, with_peak
from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ._mfu_gpus import JOB, gpu_records, logged_fleet

DAY = (*JOB, "day_ts")

JOB_MFU = Table(
    name="job_mfu",
    doc="Model FLOPs utilisation per job attempt, UTC day and convention, recomputed from step times and "
    "the model's shape; what the log itself claims stands beside it. Recomputation is never in mfu_ratio.",
    grain=(*DAY, "convention"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column("job_id", "VARCHAR", "job, as in train_step"),
        Column("attempt", "BIGINT", "attempt, as in train_step"),
        Column("day_ts", "TIMESTAMP", "UTC day of the steps' starts; 1970 where the log has no clock"),
        Column("convention", "VARCHAR", "how FLOPs are counted: see formula"),
        Column("is_default", "BOOLEAN", "the convention to compare jobs by: palm, full attention",
               null=False),
        Column("formula", "VARCHAR", "FLOPs per token, N parameters (active ones), L layers, h width, H "
               "heads of width Q, K key and value heads, f feed-forward, E experts, V vocabulary, s tokens "
               "per sample", null=False),
        Column("terms", "VARCHAR", "JSON: FLOPs per token by term; NULL: shape is missing"),
        Column("flops_per_token", "DOUBLE", "their sum; NULL: shape is missing", "FLOP"),
        Column("parameter_source", "VARCHAR", "N is stated in model_shape, or counted from its shape "
               "(norms and biases left out); NULL: not known"),
        Column("time_basis", "VARCHAR", "as in train_step", null=False),
        Column("mfu_ratio", "DOUBLE", "model FLOP/s of the steps after the warm-up by the peak; NULL: "
               "missing says why", "ratio"),
        Column("missing", "VARCHAR", "why there is no mfu_ratio, the first of: shape (model_shape does not say "
               "what the convention needs; such rows are of the default one), gpu_count (neither "
               "scheduler, which must give all attempts of the job alike, nor model_shape), tokens (steps without "
               "tokens, or batch and seq_len, or rate), warm_up (no other step), peak (gpu_peak does not have the "
               "model at this precision, or the model is not known)"),
        Column("is_implausible", "BOOLEAN", "mfu_ratio is above max_ratio: the precision, the peak, the "
               "number of GPUs or of active parameters is wrong", null=False),
        Column("mfu_with_warmup_ratio", "DOUBLE", "the same with the warm-up", "ratio"),
        Column("hfu_ratio", "DOUBLE", "palm only: with the FLOPs that recompute adds; NULL where it is "
               "not stated", "ratio"),
        Column("model_tflops", "DOUBLE", "model TFLOP/s per GPU after the warm-up", "TFLOP/s"),
        Column("logged_tflops", "DOUBLE", "median of what the log claims", "TFLOP/s"),
        Column("logged_mfu_ratio", "DOUBLE", "median of what the log claims", "ratio"),
        Column("token_count", "DOUBLE", "tokens of the steps after the warm-up; NULL where the log gives "
               "rates only", "count"),
        Column("step_s", "DOUBLE", "their summed length; NULL where the log gives rates only", "s"),
        Column("step_count", "BIGINT", "logged steps after the warm-up", "count"),
        Column("warmup_step_count", "BIGINT", "logged steps left out as warm-up", "count"),
        Column("coverage_ratio", "DOUBLE", "logged steps that a figure rests on, by the steps that their "
               "numbers span; a log that prints means over its interval covers more than this says",
               "ratio"),
        Column("gpu_count", "BIGINT", "GPUs: the scheduler's record, else model_shape", "count"),
        Column("gpu_model", "VARCHAR", "their model; several with + between"),
        Column("peak_tflops", "DOUBLE", "dense peak per GPU at the precision; of several models the mean "
               "weighted by their GPUs. Never with sparsity. At the clock of gpu_peak.spec_clock_mhz, not "
               "the job's", "TFLOP/s"),
        Column("peak_source", "VARCHAR", "gpu_peak.source of the entries it comes from"),
        Column("precision", "VARCHAR", "of the matrix products", null=False),
        Column("precision_is_assumed", "BOOLEAN", "no one stated it: bf16 was taken", null=False),
        Column("peak_gpu_s", "DOUBLE", "peak_tflops times GPUs times step_s: the weight in a fleet's "
               "figure", "TFLOP"),
    ),
    time="day_ts",
    sort=("job_id", "day_ts"),
)  # fmt: skip
PARAMS = {
    "warmup_count": Param(
        5,
        "count; first logged steps of an attempt that are left out: compilation, caches, first fetches. "
        "MaxText's first two are meaningless by its own documentation, NeMo's recipes drop five.",
    ),
    "max_ratio": Param(
        0.85,
        "ratio; more is no MFU. The best matrix products measured reach 80 % on Hopper and 87 % on Ampere "
        "(stas00/ml-engineering, compute/accelerator), published whole models at most 67 %.",
    ),
}


@model(output=JOB_MFU, params=PARAMS, lookback=timedelta(days=1))
def job_mfu(
    train_step_run: pl.LazyFrame,
    model_shape: pl.LazyFrame,
    gpu_peak: pl.LazyFrame,
    job_attempt: pl.LazyFrame,
    inventory_gpu_span: pl.LazyFrame,
    *,
    warmup_count: int,
    max_ratio: float,
) -> pl.LazyFrame:
    """Rate of tokens per GPU and day, times FLOPs per token, by the peak.

    Tokens of a step are step_token_count, else global_batch_size x seq_len, else samples_per_s x seq_len, else
    tokens_per_gpu_s, else what token_count or sample_count grew by since the step logged before; the
    sample's length is the log's, else model_shape's. An attempt's first logged steps are its warm-up;
    those of the day before decide whether a day has any.

    GPUs are the scheduler's typed ones, else those of the inventory on the attempt's nodes if they are
    of one model or as many as it held, else model_shape's.

    No SQL: the terms of the conventions are the ones that `fleetmark mfu audit` evaluates, kept once.
    """
    peaks = gpu_peak.sort("match_order").collect()
    records = gpu_records(job_attempt.collect(), inventory_gpu_span.collect())
    fleet = logged_fleet(records, model_shape.collect(), train_step_run)
    days = _days(train_step_run.collect(), fleet, warmup_count)
    known = _peaks(days, peaks)
    counted = by_convention(known, CONVENTIONS).filter(pl.col("kind") == "mfu")
    shapeless = known.join(
        counted.filter(pl.col("convention") == DEFAULT), on=DAY, how="anti"
    ).with_columns(pl.lit(DEFAULT).alias("convention"))
    counted = pl.concat([counted, shapeless], how="diagonal_relaxed")
    return _figures(counted, max_ratio).select(JOB_MFU.column_names).lazy()


def _days(steps: pl.DataFrame, fleet: pl.DataFrame, warmup_count: int) -> pl.DataFrame:
    """Per attempt and day: tokens per second and GPU, with and without the warm-up."""
    place = pl.col("step").rank("ordinal").over(JOB)
    length = pl.coalesce(pl.col("seq_len_logged"), pl.col("seq_len"))
    rate = pl.coalesce(
        pl.col("step_token_count") / pl.col("step_s") / pl.col("gpu_count"),
        pl.col("global_batch_size") * length / pl.col("step_s") / pl.col("gpu_count"),
        pl.col("samples_per_s") * length / pl.col("gpu_count"),
        pl.col("tokens_per_gpu_s"),
        _grown("token_count") / pl.col("step_s") / pl.col("gpu_count"),
        _grown("sample_count") * length / pl.col("step_s") / pl.col("gpu_count"),
    )
    rated = (
        steps.rename({"seq_len": "seq_len_logged"})
        .sort(*JOB, "step")
        .join(fleet, on=JOB, how="inner")
        .with_columns(
            pl.col("ts").dt.truncate("1d").alias("day_ts"),
            (place <= warmup_count).alias("is_warmup"),
            rate.alias("rate"),
            # Attention is counted with the length that was trained.
            length.alias("seq_len"),
            # Without lengths every logged step weighs the same.
            pl.coalesce("step_s", pl.lit(1.0)).alias("weight_s"),
        )
    )
    good = (pl.col("rate").is_finite() & (pl.col("rate") > 0)).fill_null(value=False)
    kept, weight = good & ~pl.col("is_warmup"), pl.col("weight_s")
    tokens = pl.col("rate") * weight
    timed = pl.col("step_s").filter(good).is_not_null().all()
    span = pl.col("step").filter(kept).max() - pl.col("step").filter(kept).min() + 1
    return rated.group_by(*DAY, maintain_order=True).agg(
        pl.col(*(name for name in SHAPE if name != "seq_len")).first(),
        pl.coalesce(pl.col("seq_len").filter(good).max(), pl.col("seq_len").max()),
        pl.col("recompute", "precision", "gpu_count", "gpu_models", "gpu_model_counts").first(),
        pl.col("time_basis").first(),
        pl.col("logged_tflops").filter(kept).median(),
        pl.col("logged_mfu_ratio").filter(kept).median(),
        (tokens.filter(kept).sum() / weight.filter(kept).sum()).alias("tokens_per_gpu_s"),
        (tokens.filter(good).sum() / weight.filter(good).sum()).alias("tokens_with_warmup"),
        good.any().alias("has_rate"),
        pl.when(timed).then(weight.filter(kept).sum()).alias("seconds"),
        kept.sum().cast(pl.Int64).alias("step_count"),
        (good & pl.col("is_warmup")).sum().cast(pl.Int64).alias("warmup_step_count"),
        (pl.col("step").filter(kept).n_unique() / span).alias("coverage_ratio"),
    )  # fmt: skip


def _grown(counter: str) -> pl.Expr:
    """By how much a counter grew per step since the one logged before; NULL where it fell."""
    grown = pl.col(counter).diff().over(JOB) / pl.col("step").diff().over(JOB)
    return pl.when(grown > 0).then(grown)


def _peaks(days: pl.DataFrame, peaks: pl.DataFrame) -> pl.DataFrame:
    """The peak per GPU of each attempt and day: the mean over its GPUs."""
    single = (
        days.select(*DAY, "precision", "gpu_models", "gpu_model_counts")
        .explode("gpu_models", "gpu_model_counts")
        .rename({"gpu_models": "gpu_model", "gpu_model_counts": "count"})
    )
    found = with_peak(single, peaks)
    weight = pl.coalesce(pl.col("count"), 1)
    whole = found.group_by(*DAY).agg(
        pl.when(pl.col("dense_tflops").is_not_null().all())
        .then((pl.col("dense_tflops") * weight).sum() / weight.sum())
        .alias("peak_tflops"),
        pl.col("gpu_model").drop_nulls().unique().sort().str.join("+").alias("gpu_model"),
        pl.col("peak_source").drop_nulls().unique().sort().str.join("; ").alias("peak_source"),
    )
    return days.join(whole, on=DAY, how="left")


def _figures(counted: pl.DataFrame, max_ratio: float) -> pl.DataFrame:
    default = pl.col("convention") == DEFAULT
    flops, peak = pl.col("flops_per_token"), pl.col("peak_tflops") * 1e12
    kept = pl.col("step_count") > 0
    achieved = pl.when(kept).then(flops * pl.col("tokens_per_gpu_s"))
    executed = by_convention(counted.filter(default).drop("kind"), EXECUTED.values())
    matching = pl.col("recompute").replace_strict(dict(EXECUTED), default=None)
    executed = executed.filter(pl.col("convention") == matching).select(
        *DAY, (pl.col("flops_per_token") * pl.col("tokens_per_gpu_s") / peak).alias("hfu")
    )
    text = {c.id: c.formula for c in CONVENTIONS.values()}
    seconds = pl.when(kept).then("seconds")
    return counted.join(executed, on=DAY, how="left").with_columns(
        default.alias("is_default"),
        pl.col("convention").replace_strict(text).alias("formula"),
        (achieved / peak).alias("mfu_ratio"),
        (achieved / peak > max_ratio).fill_null(value=False).alias("is_implausible"),
        pl.when("has_rate")
        .then(flops * pl.col("tokens_with_warmup") / peak)
        .alias("mfu_with_warmup_ratio"),
        pl.when(flops.is_null())
        .then(pl.lit("shape"))
        .when(~pl.col("has_rate") & pl.col("gpu_count").is_null())
        .then(pl.lit("gpu_count"))
        .when(~pl.col("has_rate"))
        .then(pl.lit("tokens"))
        .when(~kept)
        .then(pl.lit("warm_up"))
        .when(peak.is_null())
        .then(pl.lit("peak"))
        .alias("missing"),
        pl.when(default & kept).then("hfu").alias("hfu_ratio"),
        (achieved / 1e12).alias("model_tflops"),
        (seconds * pl.col("tokens_per_gpu_s") * pl.col("gpu_count")).alias("token_count"),
        seconds.alias("step_s"),
        pl.when(pl.col("gpu_model") != "").then("gpu_model").alias("gpu_model"),
        pl.when(pl.col("peak_source") != "").then("peak_source").alias("peak_source"),
        pl.col("precision").is_null().alias("precision_is_assumed"),
        pl.col("precision").fill_null(ASSUMED),
        (pl.col("peak_tflops") * pl.col("gpu_count") * seconds).alias("peak_gpu_s"),
    )
