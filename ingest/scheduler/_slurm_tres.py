"""Trackable resources: `billing=48,cpu=192,gres/gpu:h100=8,gres/gpu=8,mem=1800G,node=1`.

Also the older GRES spellings `gpu:h100:8(IDX:0-3,5)`, `gpu:(null):4` and `PER_NODE:gpu:8`, and sizes.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

# Slurm counts in powers of 1024; sizes in TRES without a suffix are MiB (sacct(1), AllocTRES).
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
MAX_BYTES = (1 << 63) - 1
MAX_COUNT = (1 << 31) - 1

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)B?([nc]?)", re.IGNORECASE)
_PAIR = re.compile(r"([^=]+)=([^=]*)")
# gpu[:MODEL][:COUNT][(IDX:...)] ; MODEL may be (null) and may hold - . _ and a MIG profile 1g.10gb.
_GRES = re.compile(
    r"(?:PER_NODE:)?(?:gres[:/])?gpu(?::(?P<model>\(null\)|[^:,()=]*[^:,()=\d][^:,()=]*))?"
    r"(?:[:=](?P<count>\d+))?(?:\([^)]*\))?"
)
_SHARE = re.compile(r"\d+\.\d*[1-9]\d*")
_REPEATED_COUNT = re.compile(r":\d+$")
_OUTSIDE_BRACKETS = re.compile(r",(?![^()]*\))")

SCHEMA = {
    "gpus": pl.Int32(),
    "gpu_count_source": pl.String(),
    "gpu_models": pl.List(pl.String()),
    "gpu_model_counts": pl.List(pl.Int32()),
    "cpus": pl.Int64(),
    "nodes": pl.Int32(),
    "mem_bytes": pl.Int64(),
}


def size_bytes(text: str, default: str = "M") -> tuple[int, str] | None:
    """Bytes and scope (job, node, cpu) of `64G`, `400Gn`, `3000Mc`; `default`: unit if none is given.

    Suffixes n and c stood for per node and per core before Slurm 21.08. None when it is no size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    unit = match.group(2).upper() or default
    value = round(float(match.group(1)) * 1024 ** POWERS[unit])
    scope = {"n": "node", "c": "cpu", "": "job"}[match.group(3).lower()]
    return (value, scope) if value <= MAX_BYTES else None


def count(text: str) -> int | None:
    """A count such as `16` or `1.5K` (1024s); None when it is none."""
    parsed = size_bytes(text, default="")
    return parsed[0] if parsed and parsed[0] <= MAX_COUNT else None


def parse_tres(text: str) -> dict[str, Any] | None:
    """Counts of a TRES string; None when it cannot be read.

    GPUs are the generic entry if there is one, else the sum of the typed ones; the two are never
    added, since clusters that account both write the same GPUs twice. `gres/gpumem` and
    `gres/gpuutil` are no counts of GPUs. A share of a GPU (`gres/gpu=1.5`) fits no count: NULL, and
    the source says `fractional`. A request may repeat its number in the name (`gres/gpu:h100:2=2`).
    """
    row: dict[str, Any] = dict.fromkeys(SCHEMA)
    gpus: dict[str, str] = {}
    for entry in text.split(","):
        pair = _PAIR.fullmatch(entry)
        if pair is None:
            return None
        name, value = pair.groups()
        if name == "mem":
            size = size_bytes(value)
            if size is None:
                return None
            row["mem_bytes"] = size[0]
        elif name == "gres/gpu" or name.startswith("gres/gpu:"):
            gpus[name.removeprefix("gres/gpu")] = value
        elif name in {"cpu", "node"}:
            row["cpus" if name == "cpu" else "nodes"] = number = count(value)
            if number is None:
                return None
    counted = _gpu_entries(gpus)
    return None if counted is None else row | counted


def _gpu_entries(entries: dict[str, str]) -> dict[str, Any] | None:
    """GPUs of TRES entries by what follows `gres/gpu`; None when a count cannot be read."""
    generic: int | None = None
    typed: dict[str, int] = {}
    for name, value in entries.items():
        number = count(value)
        if number is None:
            return None
        if name:
            model = _REPEATED_COUNT.sub("", name.removeprefix(":"))
            typed[model] = typed.get(model, 0) + number
        else:
            generic = number
    if any(_SHARE.fullmatch(value) for value in entries.values()):
        return {"gpu_count_source": "fractional"}
    return _gpus(generic, typed, "tres_generic", "tres_typed")


def parse_gres(text: str, nodes: int | None) -> dict[str, Any] | None:
    """GPUs of a GRES string (`gpu:a100:4,gpu:h100:4(IDX:0-3)`); None when it has no readable one.

    `PER_NODE:` counts are multiplied by `nodes`; without that number they stay unknown.
    """
    typed: dict[str, int] = {}
    untyped = 0
    seen = False
    per_node = text.startswith("PER_NODE:")
    if per_node and nodes is None:
        return None
    for entry in _OUTSIDE_BRACKETS.split(text):
        match = _GRES.fullmatch(entry)
        if match is None:
            continue
        seen = True
        number = int(match["count"] or 1) * (nodes if per_node and nodes else 1)
        if match["model"]:
            typed[match["model"]] = typed.get(match["model"], 0) + number
        else:
            untyped += number
    if not seen or untyped + sum(typed.values()) > MAX_COUNT:
        return None
    return _gpus(untyped + sum(typed.values()), typed, "gres", "gres")


def _gpus(
    generic: int | None, typed: dict[str, int], if_generic: str, if_typed: str
) -> dict[str, Any]:
    total = generic if generic is not None else sum(typed.values()) if typed else None
    source = if_generic if generic is not None else if_typed if typed else None
    named = {model: number for model, number in typed.items() if model != "(null)"}
    return {
        "gpus": total,
        "gpu_count_source": source,
        "gpu_models": list(named) or None,
        "gpu_model_counts": list(named.values()) or None,
    }


def tres(column: pl.Series) -> pl.DataFrame:
    """Columns of SCHEMA and `readable` for a column of TRES strings; NULLs where it is empty.

    Each distinct string is parsed once, in Python: about 250,000 distinct strings a second.
    """
    distinct = column.unique().drop_nulls()
    rows = [None if text == "" else parse_tres(text) for text in distinct]
    empty: dict[str, Any] = dict.fromkeys(SCHEMA)
    table = pl.DataFrame([row or empty for row in rows], schema=SCHEMA).with_columns(
        text=distinct.cast(pl.String),
        readable=pl.Series(
            [row is not None or text == "" for text, row in zip(distinct, rows, strict=True)],
            dtype=pl.Boolean,
        ),
    )
    return (
        column.to_frame("text")
        .join(table, on="text", how="left", maintain_order="left")
        .with_columns(pl.col("readable").fill_null(value=True))
        .drop("text")
    )
