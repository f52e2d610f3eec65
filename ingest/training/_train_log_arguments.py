"""The arguments that Megatron-LM and its forks print at the start: the model's shape."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

START = r"-{5,} arguments -{5,}"
END = "end of arguments"
# The vocabulary is padded after the arguments are printed.
PADDED = r"padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: (\d+)\)"
ARGUMENT = re.compile(r"(?:^|[\s:\]])([a-z_0-9]+) (?:\.+ )?([^ ].*)$")
# A block is complete at its padded vocabulary or the first record, or so many lines behind its start.
MAX_LINES = 3_000
NAMES = {
    "layer_count": ("num_layers", "encoder_num_layers"),
    "hidden_size": ("hidden_size",),
    "head_count": ("num_attention_heads",),
    "head_dim": ("kv_channels",),
    "seq_len": ("seq_length", "encoder_seq_length"),
    "expert_count": ("num_experts",),
    "active_expert_count": ("moe_router_topk", "topk"),
    "gpu_count": ("world_size",),
}


def shapes(
    lines: pl.DataFrame, records: str, *, at_end: bool
) -> tuple[list[dict[str, object]], int | None]:
    """One row per block (line_no and columns of model_shape), and the line of one still open.

    records   pattern of a step's record, which ends a block
    """
    texts = pl.col("text")
    rows: list[dict[str, object]] = []
    for start in lines.filter(texts.str.contains(START))["line_no"]:
        block = lines.filter(pl.col("line_no").is_between(start, start + MAX_LINES))
        stops = block.filter(texts.str.contains(f"{PADDED}|{records}"))["line_no"]
        if stops.is_empty() and not at_end and lines["line_no"][-1] < start + MAX_LINES:
            return rows, start
        if not stops.is_empty():
            block = block.filter(pl.col("line_no") <= stops[0])
        rows.append({"line_no": start, **_shape(block["text"].to_list())})
    return rows, None


def _shape(texts: list[str]) -> dict[str, object]:
    ends = next((n for n, text in enumerate(texts) if END in text), len(texts))
    matches = filter(None, map(ARGUMENT.search, texts[1:ends]))
    found: dict[str, str] = {match[1]: match[2] for match in matches}
    shape: dict[str, object] = {
        column: next((_count(found[n]) for n in names if _count(found.get(n))), None)
        for column, names in NAMES.items()
    }
    is_moe = (shape["expert_count"] or 1) != 1
    if not is_moe:
        shape["expert_count"] = shape["active_expert_count"] = None
    ffn = _count(found.get("moe_ffn_hidden_size")) if is_moe else None
    padded = next((m[1] for text in texts if (m := re.search(PADDED, text))), None)
    return shape | {
        "kv_head_count": _kv_heads(found),
        "ffn_size": ffn or _count(found.get("ffn_hidden_size")),
        "vocab_size": _count(padded) or _count(found.get("padded_vocab_size")),
        # Before these options there was no gate, and one embedding for both ends.
        "is_gated": found.get("swiglu", "False") == "True"
        or found.get("glu_activation", "None") != "None",
        "is_tied": found.get("untie_embeddings_and_output_weights", "False") != "True",
        "recompute": _recompute(found),
        "precision": _precision(found),
    }


def _count(text: str | None) -> int | None:
    match = re.fullmatch(r"\[?(\d{1,12})\]?", (text or "").strip())
    return int(match[1]) or None if match else None


def _kv_heads(found: Mapping[str, str]) -> int | None:
    if found.get("group_query_attention") == "True":
        return _count(found.get("num_query_groups"))
    return _count(found.get("num_key_value_heads"))


def _recompute(found: Mapping[str, str]) -> str | None:
    granularity = found.get("recompute_granularity", "None").strip()
    if granularity in ("full", "selective"):
        return granularity
    if found.get("checkpoint_activations") == "True":
        return "full"
    known = "recompute_granularity" in found or "checkpoint_activations" in found
    return "none" if known else None


def _precision(found: Mapping[str, str]) -> str | None:
    is_fp8 = found.get("fp8", "None").strip() not in ("None", "False")
    if is_fp8 or "True" in (found.get("fp8_hybrid"), found.get("fp8_e4m3")):
        return "fp8"
    return next((name for name in ("bf16", "fp16") if found.get(name) == "True"), None)
