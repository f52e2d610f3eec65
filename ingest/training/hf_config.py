"""config.json of Hugging Face models."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.model_shape import MODEL_SHAPE

# Names by family; the first that is there. GPT-2 and Falcon say n_embd and n_layer, MPT d_model.
NAMES = {
    "layer_count": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "head_count": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_head_count": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head_dim": ("head_dim",),
    "ffn_size": ("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    "vocab_size": ("vocab_size",),
    "expert_count": ("num_local_experts", "num_experts", "n_routed_experts"),
    "active_expert_count": ("num_experts_per_tok", "num_experts_per_token"),
}
# Families whose feed-forward has a gate; hidden_act names the function only.
GATED = {
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2",
    "gemma3_text", "phi3", "olmo", "olmo2", "deepseek_v2", "deepseek_v3", "cohere", "granite",
}  # fmt: skip
UNGATED = {"gpt2", "gpt_neox", "opt", "bloom", "falcon", "mpt", "phi", "gpt_bigcode", "gptj"}
FFN_OF_FOUR = {"gpt2", "bloom", "mpt", "falcon", "gptj"}


@source(
    outputs=(MODEL_SHAPE,),
    reads="document",
    options=(
        Option("job_id", "job that trains the model: the file names none"),
        Option("seq_len", "tokens per sample in training: the file says only what the model takes"),
        Option("gpu_count", "GPUs of the job, where no scheduler record says"),
        Option("gpu_model", "model of its GPUs, where no scheduler record says"),
        Option("precision", "of the matrix products: bf16, fp16, fp8, fp4, tf32"),
        Option("recompute", "none, selective or full recomputation of activations"),
    ),
    sniff=lambda head, name: (
        name.endswith(".json") and re.search(rb'"model_type"\s*:', head) is not None
    ),
)
def hf_config(content: bytes, context: Context) -> Parsed:
    """config.json of a transformers model, and what a FLOP count needs beside it as options.

    Read are layers, width, heads, key and value heads, head_dim, feed-forward, vocabulary, tied
    embeddings, experts; a text_config within is taken instead. n_shared_experts are added to the
    active experts, first_k_dense_replace taken off the layers with experts. Whether the feed-forward
    has a gate follows from model_type; for families not known here it stays NULL. The number of
    parameters is not in the file.
    """
    options = context.options
    if not options.get("job_id"):
        return _whole("the file names no job; --set job_id=JOB")
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        return _whole(f"not JSON: {error}"[:300])
    if isinstance(config, dict) and isinstance(config.get("text_config"), dict):
        config = config["text_config"]
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        return _whole("no object with model_type: is it a config.json?")
    row = _shape(config) | {name: options.get(name) for name in
                            ("cluster", "job_id", "gpu_model", "precision", "recompute")}  # fmt: skip
    for name in ("seq_len", "gpu_count"):
        stated = options.get(name)
        if stated is not None and not (stated.isdigit() and int(stated[:18]) > 0):
            return _whole(f"{name} {stated!r} is no number; --set {name}=N")
        row[name] = None if stated is None else int(stated[:18])
    schema = {"line_no": pl.Int64(), **MODEL_SHAPE.polars_schema()}
    return Parsed({MODEL_SHAPE.name: pl.DataFrame([row | {"line_no": 1}], schema, orient="row")})


def _shape(config: dict[str, Any]) -> dict[str, object]:
    family = config["model_type"]
    found = {
        column: next((_count(config[n]) for n in names if _count(config.get(n))), None)
        for column, names in NAMES.items()
    }
    if found["ffn_size"] is None and family in FFN_OF_FOUR and found["hidden_size"]:
        found["ffn_size"] = 4 * found["hidden_size"]
    if config.get("multi_query") is True:
        found["kv_head_count"] = 1
    shared, dense = (
        _count(config.get("n_shared_experts")),
        _count(config.get("first_k_dense_replace")),
    )
    if shared and found["active_expert_count"]:
        found["active_expert_count"] += shared
    layers = found["layer_count"]
    tied = config.get("tie_word_embeddings")
    return {
        **found,
        "moe_layer_count": layers - dense if dense and layers and found["expert_count"] else None,
        "is_gated": True if family in GATED else False if family in UNGATED else None,
        "is_tied": tied if isinstance(tied, bool) else None,
        "model": family,
    }


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40
    return value if is_count else None  # type: ignore[return-value]  # an int by is_count


def _whole(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, REJECTS_SCHEMA))
