"""What inference servers print while they start."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from ..scheduler._slurm_time import is_zone
from ..tables.replica_phase import REPLICA_PHASE

# vLLM 0.4 to 0.12 (model_executor/model_loader, worker/gpu_model_runner, engine/core, compilation/backends);
# SGLang 0.5 (model_executor/model_runner). Each prints how long a phase took when it ends.
PHASES = {
    "load": r"Loading weights took ([\d.]+) s|Load weight end\. elapsed=([\d.]+) s",
    "compile": r"torch\.compile (?:takes|took) ([\d.]+) s in total",
    "capture": r"Graph capturing finished in ([\d.]+) sec|Capture cuda graph end\. Time elapsed: ([\d.]+) s",
    "warm_up": r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s",
}
ANY = "|".join(PHASES.values())
# A collector's stamp in front of the line, else the server's own, which vLLM prints without year.
ISO = r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?"
BRACKET = r"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)"
YEARLESS = r"\b(?:DEBUG|INFO|WARNING) (\d\d-\d\d) (\d\d:\d\d:\d\d)"
MAX_S = 86_400.0


@source(
    outputs=(REPLICA_PHASE,),
    options=(
        Option("replica", "pod of the log, if the file is not named POD.log", ""),
        Option("tz", "zone of times that state none, as an IANA name"),
        Option("year", "year of the log, where stamps have none (vLLM: INFO 07-23 10:22:20)", ""),
    ),
    name_facts=r"^(?P<replica>[^/]+?)\.(?:log|txt)(?:\.gz)?$",
    sniff=lambda head, _name: re.search(ANY.encode(), head) is not None,
)
def serving_log(lines: pl.DataFrame, context: Context) -> Parsed:
    """Logs of vLLM and SGLang while they start: loading weights, compiling, capturing graphs, warm-up.

    A phase's line states its length and is printed at its end. The time is a collector's RFC 3339 in
    front of the line, else the server's own stamp; without zone it needs tz, without year the year.
    Every worker prints its own; `part` is its name. All other lines are skipped.
    """
    found = lines.filter(pl.col("text").str.contains(ANY))
    options = context.options
    zone, year = options.get("tz"), options["year"]
    reason = None
    if not options["replica"]:
        reason = f"the name {context.file_name!r} does not state the pod; --set replica=POD"
    elif (zone is not None and not is_zone(zone)) or not re.fullmatch(r"(?:20\d\d)?", year):
        reason = "tz is no zone such as UTC or Europe/Berlin, or year is none from 2000 to 2099"
    if reason is not None:
        return Parsed({}, rejects(found, reason), lines.height - found.height)
    rows = _phases(found, zone, year).with_columns(
        pl.lit(options["cluster"]).alias("cluster"), pl.lit(options["replica"]).alias("replica")
    )
    bad = rows.filter(pl.col("reason").is_not_null())
    good = rows.filter(pl.col("reason").is_null()).unique(
        REPLICA_PHASE.grain, keep="first", maintain_order=True
    )
    kept = good.select("line_no", *(c for c in REPLICA_PHASE.column_names if c in good.columns))
    refused = rejects(bad, pl.col("reason")).select(*REJECTS_SCHEMA)
    return Parsed({REPLICA_PHASE.name: kept}, refused, lines.height - kept.height - bad.height)


def _phases(lines: pl.DataFrame, zone: str | None, year: str) -> pl.DataFrame:
    text = pl.col("text").str.replace_all("\x1b\\[[0-9;]*m", "")
    seconds = [
        pl.coalesce(text.str.extract(p, n + 1) for n in range(re.compile(p).groups)).alias(name)
        for name, p in PHASES.items()
    ]
    told = lines.with_columns(text.alias("clean"), *seconds)
    text = pl.col("clean")
    length = pl.coalesce(*PHASES).cast(pl.Float64, strict=False)
    micros = pl.duration(microseconds=(length * 1e6).round().cast(pl.Int64, strict=False))
    local = [text.str.extract_groups(BRACKET).struct, text.str.extract_groups(YEARLESS).struct]
    day = [local[0].field("1"), pl.lit(f"{year}-") + local[1].field("1") if year else None]
    clock = [
        pl.format("{}T{}", d, p.field("2"))
        for d, p in zip(day, local, strict=True)
        if d is not None
    ]
    iso = text.str.extract_groups(ISO).struct
    front = pl.format("{}T{}", iso.field("1"), iso.field("2").str.replace(",", "."))
    offset = iso.field("3").str.replace("Z", "+00:00", literal=True)
    form = "%Y-%m-%dT%H:%M:%S%.f"
    zoned = (
        pl.concat_str(front, offset).str.to_datetime(f"{form}%#z", time_unit="us", strict=False)
        .dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    )  # fmt: skip
    known = pl.lit(None, pl.Datetime("us"))
    if zone is not None:
        own = pl.coalesce(front, *clock).str.to_datetime(form, time_unit="us", strict=False)
        aware = own.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
        known = aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    is_sglang = text.str.contains(r"Load weight end|Capture cuda graph end")
    return told.with_columns(
        pl.coalesce(pl.when(pl.col(n).is_not_null()).then(pl.lit(n)) for n in PHASES).alias("phase"),
        pl.coalesce(text.str.extract(r"\((\w+) pid=\d+\)", 1), text.str.extract(r" (TP\d+)\]", 1),
                    pl.lit("")).alias("part"),
        pl.coalesce(zoned, known).alias("end_ts"),
        length.alias("duration_s"),
        pl.when(is_sglang).then(pl.lit("sglang")).otherwise(pl.lit("vllm")).alias("origin"),
    ).with_columns(
        (pl.col("end_ts") - micros).alias("start_ts"),
        pl.when(~pl.col("duration_s").is_between(0, MAX_S).fill_null(value=False))
        .then(pl.lit("the length of the phase is not between 0 and a day"))
        .when(pl.col("end_ts").is_null())
        .then(pl.lit("a time without zone or year; --set tz=UTC --set year=2026"))
        .alias("reason"),
    )  # fmt: skip
