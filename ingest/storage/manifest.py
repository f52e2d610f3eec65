"""The manifest of checkpoints: which objects make up a complete copy."""

from __future__ import annotations

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed, rejects, source

from .._entries import Entries, EntryError
from ..tables.manifest_object import MANIFEST_OBJECT

_REQUIRED = ("checkpoint", "bucket", "object_key")
_ENTRIES = Entries(MANIFEST_OBJECT, _REQUIRED, "a checkpoint, a bucket and a key")
_ROLES = ("weights", "index", "other")


def _looks_like_manifest(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return all(name.encode() in first for name in _REQUIRED) and first[:1] != b"#"


@source(outputs=(MANIFEST_OBJECT,), reads="document", sniff=_looks_like_manifest)
def manifest(content: bytes, context: Context) -> Parsed:
    """Manifest of checkpoints: CSV with a header line (RFC 4180, one object a line), or JSON lines.

    Fields are the columns of manifest_object under their names, in any order; `checkpoint`,
    `bucket` and `object_key` must be there, others may be missing or empty, unknown ones are passed
    over. `cluster` falls back to the option.

        checkpoint,family,bucket,object_key,object_bytes,role,updated_ts
        run7/iter_9000,llm-70b,ckpt,run7/model-00001.safetensors,4999802720,weights,2026-03-01T00:00:00Z

    `object_key` is the key itself, not URL-encoded. `object_bytes` is a whole number of bytes; empty
    is unknown. `role` is weights, index or other; empty is read off the key: an index ends in
    `.index.json`, `.metadata` or `config.json`, weights in `.safetensors .distcp .pt .pth .bin .ckpt
    .gguf .npz .h5`, all else is other. `updated_ts` is ISO 8601, UTC where it states no zone.

    An object that comes again replaces the earlier one when its `updated_ts` is later. One that
    comes again in a file with another size and no later `updated_ts` is a reject: which of the two
    is true cannot be told.
    """
    lines, damaged = split_lines(content, 1)
    first_line = lines["text"][0] if lines.height and lines["line_no"][0] == 1 else ""
    rows, bad, skipped = _ENTRIES.read(lines, first_line, context.options["cluster"], _finish)
    grain = list(MANIFEST_OBJECT.grain)
    first = pl.col("object_bytes").first().over(grain, order_by="line_no")
    since = pl.col("updated_ts").first().over(grain, order_by="line_no")
    rows = rows.with_columns(
        disputed=first.ne_missing(pl.col("object_bytes"))
        & ~(pl.col("updated_ts") > since).fill_null(pl.col("updated_ts").is_not_null())
    )
    disputed = rows.filter("disputed").select("line_no")
    reason = "the same object stands above with another size, and updated_ts is not later"
    return Parsed(
        {"manifest_object": rows.filter(~pl.col("disputed")).drop("disputed")},
        pl.concat([damaged, bad, rejects(lines.join(disputed, on="line_no", how="semi"), reason)]),
        skipped,
    )


def _finish(entry: dict[str, object]) -> dict[str, object]:
    role = entry["role"]
    if role is None:
        role = _role_of(str(entry["object_key"]))
    if role not in _ROLES:
        raise EntryError(f"role {role!r} is none of {', '.join(_ROLES)}")
    return entry | {"role": role, "version_id": entry["version_id"] or ""}


def _role_of(key: str) -> str:
    name = key.rsplit("/", 1)[-1].lower()
    if name.endswith((".index.json", ".metadata", "config.json")):
        return "index"
    endings = (".safetensors", ".distcp", ".pt", ".pth", ".bin", ".ckpt", ".gguf", ".npz", ".h5")
    return "weights" if name.endswith(endings) else "other"
