"""Lines of NCCL Inspector as columns of text, each record with the context it belongs to."""

from __future__ import annotations

import json

import duckdb
import polars as pl

CONTEXT = {
    "comm_id": "header.id",
    "comm_name": "header.comm_name",
    "comm_rank": "header.rank",
    "n_ranks": "header.n_ranks",
    "n_nodes": "header.nnodes",
    "dump_us": "metadata.dump_timestamp_us",
    "node": "metadata.hostname",
    "pid": "metadata.pid",
}
_COLLECTIVE = {
    "coll": "coll_perf.coll",
    "coll_seq": "coll_perf.coll_sn",
    "coll_size": "coll_perf.coll_msg_size_bytes",
    "coll_us": "coll_perf.coll_exec_time_us",
    "coll_timing": "coll_perf.coll_timing_source",
    "coll_algbw": "coll_perf.coll_algobw_gbs",
    "coll_busbw": "coll_perf.coll_busbw_gbs",
    "algorithm": "coll_perf.coll_algo",
    "protocol": "coll_perf.coll_proto",
}
_P2P = {
    "p2p": "p2p_perf.p2p",
    "p2p_peer": "p2p_perf.p2p_peer",
    "p2p_seq": "p2p_perf.p2p_sn",
    "p2p_size": "p2p_perf.p2p_msg_size_bytes",
    "p2p_us": "p2p_perf.p2p_exec_time_us",
    "p2p_timing": "p2p_perf.p2p_timing_source",
    "p2p_algbw": "p2p_perf.p2p_algobw_gbs",
    "p2p_busbw": "p2p_perf.p2p_busbw_gbs",
}
_WHOLE = ("header", "metadata", "coll_perf", "p2p_perf", "proxy_trace")
_FIELDS = CONTEXT | _COLLECTIVE | _P2P
_OWN = ("header", "metadata")


def _shape() -> str:
    """What json_transform is to take out of a line: every field as text."""
    shape: dict[str, dict[str, str]] = {}
    for path in _FIELDS.values():
        outer, inner = path.split(".")
        shape.setdefault(outer, {})[inner] = "VARCHAR"
    return json.dumps(shape)


# The line is parsed once for the fields; which objects it has is a matter of its top-level keys.
_DECODE = f"""
WITH object AS (
    SELECT line_no, if(json_valid(text) AND json_type(text) = 'OBJECT', text, NULL) AS text
    FROM lines
),
decoded AS (
    SELECT line_no, json_transform(text, getvariable('shape')) AS r, json_keys(text) AS keys
    FROM object
)
SELECT
    line_no,
    r IS NOT NULL AND keys IS NOT NULL AS is_object,
    {", ".join(f"coalesce(list_contains(keys, '{name}'), false) AS has_{name}" for name in _WHOLE)},
    {", ".join(f"r.{path} AS {name}" for name, path in _FIELDS.items())}
FROM decoded
ORDER BY line_no
"""  # noqa: S608 - built of the names above


def read_records(lines: pl.DataFrame) -> pl.DataFrame:
    """Each line with its fields as text: line_no, text, is_object, has_*, is_marker, fields.

    A record without header and metadata gets those of the last marker in front of it, in
    `marker_line`. A line that cannot be read, or is missing, may have been a marker: what follows it
    has none until the next.
    """
    with duckdb.connect() as connection:
        connection.register("lines", lines.to_arrow())
        connection.execute("SET VARIABLE shape = $1", [_shape()])
        decoded = connection.sql(_DECODE).pl()
    has_payload = pl.any_horizontal(f"has_{name}" for name in _WHOLE if name not in _OWN)
    has_own = pl.any_horizontal(f"has_{name}" for name in _OWN)
    payload_start = pl.col("text").str.contains(r'^\s*\{\s*"(?:coll_perf|p2p_perf|proxy_trace)"')
    is_missing = pl.col("line_no").diff() > 1
    is_lost = is_missing.fill_null(value=False) | (~pl.col("is_object") & ~payload_start)
    records = decoded.join(lines, on="line_no", how="left", maintain_order="left").with_columns(
        (has_own & ~has_payload).alias("is_marker"),
        (has_payload & ~has_own).alias("is_bare"),
        has_payload.alias("has_payload"),
    )
    marker_line = (
        pl.when("is_marker").then("line_no")
        .when(is_lost).then(pl.lit(0, dtype=pl.Int64))
        .forward_fill()
    )  # fmt: skip
    records = records.with_columns(pl.when("is_bare").then(marker_line).alias("marker_line"))
    if not records["is_bare"].any():
        return records
    markers = records.filter("is_marker").select(
        pl.col("line_no").alias("marker_line"),
        *(pl.col(name).alias(f"marker_{name}") for name in CONTEXT),
    )
    return records.join(markers, on="marker_line", how="left", maintain_order="left").with_columns(
        pl.when("is_bare").then(f"marker_{name}").otherwise(name).alias(name) for name in CONTEXT
    )
