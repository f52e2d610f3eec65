"""Helios virtual-cluster sequences: GPUs and jobs per minute."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from .._delimited import delimiter_counts, split_columns
from ..tables.vc_minute import VC_MINUTE

# Column of the file -> column of the table. The file's "total" of jobs is running + pending.
COUNTS = {
    "total_gpu_num": "total_gpu_count",
    "running_gpu_num": "running_gpu_count",
    "idle_gpu_num": "idle_gpu_count",
    "pending_gpu_num": "pending_gpu_count",
    "running_gpu_num_noless_8": "running_gpu_8plus_count",
    "running_gpu_num_less_8": "running_gpu_under8_count",
    "pending_gpu_num_noless_8": "pending_gpu_8plus_count",
    "pending_gpu_num_less_8": "pending_gpu_under8_count",
    "running_job_num": "running_job_count",
    "pending_job_num": "pending_job_count",
    "running_gpujob_num": "running_gpu_job_count",
    "pending_gpujob_num": "pending_gpu_job_count",
}
NEEDED = ("time", "total_gpu_num", "running_gpu_num")
VC = Option(
    "vc", "virtual cluster; taken from a file name like earth_vcSoL_cluster_sequence_vc.csv"
)


def looks_like_helios_vc(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A header that has the columns a row cannot do without."""
    names = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(",")
    return set(NEEDED) <= set(names)


@source(
    outputs=(VC_MINUTE,),
    reads="lines",
    options=(VC,),
    name_facts=r"^(?P<cluster>[^_]+)_(?P<vc>[^_]+)_cluster_sequence_vc",
    sniff=looks_like_helios_vc,
)
def helios_vc(lines: pl.DataFrame, context: Context) -> Parsed:
    """Helios `cluster_sequence_vc.csv` (HeliosArtifact): one file per virtual cluster and month.

    Comma separated with a header, columns in any order. `cluster` and `vc` come from the file's name
    and keep its case. Times have no zone and stay as written: days must match those of the count
    file. Not read: the sums of running and pending.
    """
    names = context.first_line.removeprefix("\ufeff").strip().split(",")
    blank = lines["text"] == ""
    if missing := [name for name in NEEDED if name not in names]:
        reason = f"the header has no {', '.join(missing)}: is this a cluster_sequence_vc.csv?"
        return Parsed({}, rejects(lines.filter(~blank), reason), skipped=int(blank.sum()))
    vc = context.options.get("vc")
    if vc is None:
        reason = "the file name does not say which virtual cluster: state it with --set vc=NAME"
        return Parsed({}, rejects(lines.filter(~blank), reason), skipped=int(blank.sum()))
    is_header = (lines["text"] == context.first_line) | blank
    body = lines.filter(~is_header)
    is_whole = delimiter_counts(body, ",") == len(names) - 1
    wanted = {
        name: at for at, name in enumerate(names) if name in {"time", "gpu_utilization", *COUNTS}
    }
    fields = split_columns(body.filter(is_whole), ",", wanted)
    typed = _typed(fields, context.options["cluster"], vc)
    is_bad = pl.col("reason").is_not_null()
    bad = typed.filter(is_bad).join(lines, on="line_no").select("line_no", "reason", "text")
    short = rejects(body.filter(~is_whole), f"not {len(names)} fields as in the header")
    return Parsed(
        tables={"vc_minute": typed.filter(~is_bad).drop("reason")},
        rejects=pl.concat([short, bad]),
        skipped=int(is_header.sum()),
    )


def _typed(fields: pl.DataFrame, cluster: str, vc: str) -> pl.DataFrame:
    """Rows of the contract, and `reason`: why a row cannot be read."""
    counts = {name: new for name, new in COUNTS.items() if name in fields.columns}
    ts = pl.col("time").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    numbers = [pl.col(name).cast(pl.Int32, strict=False).alias(new) for name, new in counts.items()]
    if "gpu_utilization" in fields.columns:
        ratio = pl.col("gpu_utilization").cast(pl.Float64, strict=False)
        numbers.append(ratio.alias("gpu_utilization_ratio"))
    unread = [
        pl.when(pl.col(name).is_not_null() & pl.col(name).cast(pl.Int32, strict=False).is_null())
        .then(pl.format("{} '{}' is not a whole number", pl.lit(name), name))
        for name in counts
    ]  # fmt: skip
    no_time = pl.when(ts.is_null()).then(
        pl.format("time '{}' is not YYYY-MM-DD HH:MM:SS", pl.col("time").fill_null(""))
    )
    return fields.select(
        "line_no",
        pl.lit(cluster).alias("cluster"),
        pl.lit(vc).alias("vc"),
        ts.alias("ts"),
        *numbers,
        pl.coalesce(no_time, *unread).alias("reason"),
    )
