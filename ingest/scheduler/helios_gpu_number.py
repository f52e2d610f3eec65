"""Helios GPU counts: GPUs per virtual cluster per day."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, rejects, source

from .._delimited import delimiter_counts, split_columns
from ..tables.vc_gpu_day import VC_GPU_DAY


def looks_like_gpu_number(head: bytes, file_name: str) -> bool:
    """The name says so and the header has a date and a total."""
    names = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(",")
    return "_gpu_number" in file_name and names[0] == "date" and names[-1] == "total"


@source(
    outputs=(VC_GPU_DAY,),
    reads="lines",
    name_facts=r"^(?P<cluster>[^_]+)_gpu_number",
    sniff=looks_like_gpu_number,
)
def helios_gpu_number(lines: pl.DataFrame, context: Context) -> Parsed:
    """Helios `<Cluster>_gpu_number.csv` (HeliosArtifact): date, one column per virtual cluster, total.

    `cluster` comes from the file's name and keeps its case. The total is not stored: a line whose
    virtual clusters do not add up to it is refused.
    """
    names = context.first_line.removeprefix("\ufeff").strip().split(",")
    blank = lines["text"] == ""
    vcs = [name for name in names[1:] if name != "total"]
    if names[0] != "date" or not vcs or len(set(names)) < len(names):
        reason = "the header is not date, virtual clusters, total: is this a _gpu_number.csv?"
        return Parsed({}, rejects(lines.filter(~blank), reason), skipped=int(blank.sum()))
    is_header = (lines["text"] == context.first_line) | blank
    body = lines.filter(~is_header)
    is_whole = delimiter_counts(body, ",") == len(names) - 1
    # Columns by position: a virtual cluster may have any name, even that of a column here.
    counted = {f"#{at}": name for at, name in enumerate(names) if at > 0}
    vc_columns = [column for column, name in counted.items() if name != "total"]
    wanted = {"date": 0} | {column: at for at, column in enumerate(counted, start=1)}
    fields = split_columns(body.filter(is_whole), ",", wanted)
    typed = fields.select(
        "line_no",
        pl.col("date").str.to_datetime("%Y-%m-%d", time_unit="us", strict=False).alias("day_ts"),
        pl.col(list(counted)).cast(pl.Int32, strict=False),
    )
    added = pl.sum_horizontal(vc_columns)
    total = pl.col(f"#{names.index('total')}") if "total" in names else added
    typed = typed.with_columns(
        pl.when(pl.col("day_ts").is_null())
        .then(pl.lit("date is not YYYY-MM-DD"))
        .when(pl.any_horizontal(pl.col(list(counted)).is_null()))
        .then(pl.lit("a count is not a whole number"))
        .when(total != added)
        .then(pl.format("virtual clusters add up to {}, total says {}", added, total))
        .alias("reason")
    )
    is_bad = pl.col("reason").is_not_null()
    bad = typed.filter(is_bad).join(lines, on="line_no").select("line_no", "reason", "text")
    short = rejects(body.filter(~is_whole), f"not {len(names)} fields as in the header")
    rows = (
        typed.filter(~is_bad)
        .unpivot(
            vc_columns, index=["line_no", "day_ts"], variable_name="vc", value_name="gpu_count"
        )
        .with_columns(
            pl.col("vc").replace_strict(counted, return_dtype=pl.String),
            pl.lit(context.options["cluster"]).alias("cluster"),
        )
    )
    return Parsed({"vc_gpu_day": rows}, pl.concat([short, bad]), skipped=int(is_header.sum()))
