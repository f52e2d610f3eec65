"""AWS VPC flow logs, Parquet."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source

from ..tables.log_gap import LOG_GAP
from ..tables.net_flow import NET_FLOW
from ._vpc_fields import USED, parsed


@source(outputs=(NET_FLOW, LOG_GAP), reads="frame")
def vpc_flow_parquet(frame: pl.LazyFrame, context: Context) -> Parsed:
    """AWS VPC flow logs as Parquet files (delivery to S3): the fields of `vpc_flow` with underscores."""
    names = frame.collect_schema().names()
    known = {n: n.replace("-", "_") for n in USED}
    missing = [n for n in ("srcaddr", "dstaddr", "start", "bytes") if known[n] not in names]
    if missing:
        reason = f"the file has no column {', '.join(missing)}"
        refused = pl.DataFrame([(0, reason, "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused)
    columns = [
        pl.col(c).cast(pl.String).alias(n) if c in names else pl.lit(None, pl.String).alias(n)
        for n, c in known.items()
    ]
    numbered = frame.with_row_index("row").select(
        (pl.col("row") + 1).cast(pl.Int64).alias("line_no"), pl.lit("").alias("text"), *columns
    )
    return parsed(numbered.collect(), pl.DataFrame(schema=REJECTS_SCHEMA), 0, context)
