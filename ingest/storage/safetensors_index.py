"""Index of a sharded model, as Hugging Face writes it."""

from __future__ import annotations

import json

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.stored_object import STORED_OBJECT


def _looks_like(head: bytes, file_name: str) -> bool:
    return b'"weight_map"' in head or file_name.endswith(".index.json")


@source(
    outputs=(STORED_OBJECT,),
    reads="document",
    options=(
        Option("bucket", "bucket the model lies in", ""),
        Option("prefix", "folder of the model in it, e.g. run7/iter_9000/", ""),
    ),
    sniff=_looks_like,
)
def safetensors_index(content: bytes, context: Context) -> Parsed:
    """`model.safetensors.index.json` and `pytorch_model.bin.index.json`: which shards there are.

    The index tells the total of all tensors and which tensor is in which file, not how large a file
    is: sizes stay NULL until a listing or a log tells them. Bucket and folder must be stated.
    """
    bucket, prefix = context.options.get("bucket", ""), context.options.get("prefix", "")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        return _refused(f"not JSON: {str(error)[:100]}")
    shards = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(f, str) and f for f in shards.values()):
        return _refused("no index: weight_map is missing or names no files")
    if not bucket:
        return _refused("the index names no bucket; state it with --set bucket=NAME")
    names = sorted(set(shards.values()))
    if wrong := [name for name in names if name.startswith("/") or ".." in name.split("/")]:
        return _refused(f"shard {wrong[0][:100]!r} leaves the model's folder")
    rows = pl.DataFrame({"object_key": [prefix + name for name in names]}).with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line_no"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("safetensors_index").alias("source"),
        pl.lit(bucket).alias("bucket"),
        pl.lit("").alias("version_id"),
    )
    return Parsed({STORED_OBJECT.name: rows})


def _refused(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame([(1, reason, "")], schema=REJECTS_SCHEMA, orient="row"))
