"""Runs in the output of nccl-tests: where each begins, what it ran, on how many ranks and hosts."""

from __future__ import annotations

import hashlib

import polars as pl

FUNCTIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all_v",
    "sendrecv": "send_recv",
    "hypercube": "hypercube",
}
# As programs and files spell them; longer names first, since `reduce` begins `reduce_scatter`.
SPELLINGS = (
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all_?v|all_?to_?all|send_?recv"
    r"|broadcast|hypercube|reduce|gather|scatter"
)
_START = r"#\s*(?:nccl-tests version |Collective test starting:|nThread \d+ nGpus )"
_STARTING = rf"#\s*Collective test starting:\s*(?:\S*/)?({SPELLINGS})_perf"
_COMMAND = rf"^[^#]*?(?:^|[\s/])({SPELLINGS})_perf(?:\s+-|\s*$)"
_DEVICE = (
    r"#\s+Rank\s+(\d{1,9})(?:\s+Group\s+(\d{1,9}))?\s+Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+"
    r"\s+\[[^\]]*\]\s*(.*?)\s*$"
)
_COLUMNS = r"#\s+size\s+count\s+type\s.*\b(?:time|cputime)\b"


def marked(lines: pl.DataFrame, row_pattern: str) -> pl.DataFrame:
    """The lines that matter, with what kind each is and the number of its run.

    Columns line_no, text, kind (command, start, device, columns, row), run, is_headed (its run has
    begun in front of it). A run begins at the first of the lines that announce it. A command counts
    only where a run follows: output of the job may name the program at any time. Run 0 has lost
    its announcement.
    """
    text = pl.col("text")
    kind = (
        pl.when(text.str.contains(_START)).then(pl.lit("start"))
        .when(text.str.contains(_DEVICE)).then(pl.lit("device"))
        .when(text.str.contains(_COLUMNS)).then(pl.lit("columns"))
        .when(text.str.contains(_COMMAND)).then(pl.lit("command"))
        .when(text.str.contains(row_pattern)).then(pl.lit("row"))
    )  # fmt: skip
    announces = pl.col("kind").is_in(["start", "command"])
    found = lines.select("line_no", "text", kind.alias("kind")).drop_nulls("kind")
    led = (
        pl.col("kind").shift(-1).is_in(["start", "command"]).fill_null(value=True)
        | (pl.col("kind") != "command")
    )  # fmt: skip
    begins = announces & ~announces.shift(1).fill_null(value=False)
    return (
        found.filter(led)
        .with_columns(begins.cum_sum().alias("run"))
        .with_columns((pl.col("kind") != "row").cum_sum().over("run").gt(0).alias("is_headed"))
    )


def run_facts(found: pl.DataFrame) -> pl.DataFrame:
    """What each run says of itself: columns run, run_id, function, has_wrong, has_error, time_source,
    n_ranks, group_count, nodes, gpu_models.
    """
    text = pl.col("text")
    device = pl.col("kind") == "device"
    columns = text.filter(pl.col("kind") == "columns").first()
    runs = (
        found.with_columns(
            text.str.extract(_STARTING).alias("starting"),
            text.str.extract(_COMMAND).alias("command"),
            *(
                text.str.extract(_DEVICE, number).alias(name)
                for number, name in enumerate(("rank", "group", "host", "model"), start=1)
            ),
        )
        .with_columns(pl.col("rank").cast(pl.Int64), pl.col("group").fill_null("0"))
        .group_by("run", maintain_order=True)
        .agg(
            pl.coalesce(
                pl.col("starting").drop_nulls().first(),
                pl.col("command").filter(pl.col("kind") == "command").last(),
            ).alias("program"),
            columns.str.contains("#wrong").alias("has_wrong"),
            columns.str.contains(r"\berror\b").alias("has_error"),
            columns.str.contains("cputime").alias("has_cputime"),
            pl.col("rank").drop_nulls().n_unique().alias("rank_count"),
            pl.col("rank").max().alias("last_rank"),
            pl.col("group").filter(device).n_unique().alias("group_count"),
            pl.col("group").filter(device).unique_counts().n_unique().alias("sizes"),
            pl.col("host").drop_nulls().unique().sort().alias("nodes"),
            pl.col("model").filter(pl.col("model") != "").unique().sort().alias("gpu_models"),
            pl.col("text").str.strip_chars().alias("said"),
        )
    )
    # The list of devices is cut in the output of processes with many GPUs.
    whole = (pl.col("rank_count") == pl.col("last_rank") + 1) & (pl.col("sizes") == 1)
    return runs.select(
        "run",
        pl.Series("run_id", [_digest(said) for said in runs["said"]], dtype=pl.String),
        function_of(pl.col("program")).alias("function"),
        "has_wrong",
        "has_error",
        pl.when("has_cputime").then(pl.lit("cpu"))
        .when(~pl.col("has_cputime")).then(pl.lit("elapsed")).alias("time_source"),
        pl.when(whole).then(pl.col("rank_count") // pl.col("group_count")).alias("n_ranks"),
        pl.when(pl.col("group_count") > 0).then("group_count").alias("group_count"),
        "nodes",
        "gpu_models",
    )  # fmt: skip


def function_of(spelling: pl.Expr) -> pl.Expr:
    """The function's name in the tables; NULL for what is none."""
    plain = spelling.str.to_lowercase().str.replace_all("_", "", literal=True)
    return plain.replace_strict(FUNCTIONS, default=None, return_dtype=pl.String)


def _digest(said: pl.Series) -> str:
    """16 hexadecimal digits that name a run by what it printed; once per run, not per line."""
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
