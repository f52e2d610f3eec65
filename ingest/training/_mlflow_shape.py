"""The shape of a model from the parameters of an MLflow run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ._mlflow_names import COUNTS, GPU_MODEL, last_part, plain
from .hf_config import FFN_OF_FOUR, GATED, UNGATED

# A row of model_shape needs one of these; without them the run trains something else.
TELLING = ("layer_count", "hidden_size", "parameter_count")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "none", "")


def by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Values by plain name and by its last part; one that two names give differently is left out."""
    whole = {plain(key): value.strip() for key, value in pairs}
    tails: dict[str, set[str]] = {}
    for key, value in whole.items():
        tails.setdefault(last_part(key), set()).add(value)
    return {key: next(iter(v)) for key, v in tails.items() if len(v) == 1} | whole


def shape(params: Mapping[str, str]) -> dict[str, object]:
    """Columns of model_shape, and global_batch_size; None where no parameter says it."""
    found: dict[str, object] = {
        column: next((n for n in (_count(params.get(name)) for name in names) if n), None)
        for column, names in COUNTS.items()
    }
    family = params.get("model_type", "").lower()
    hidden = found["hidden_size"]
    if found["ffn_size"] is None and family in FFN_OF_FOUR and isinstance(hidden, int):
        found["ffn_size"] = 4 * hidden
    if (_count(params.get("num_experts")) or 2) == 1:
        found["expert_count"] = found["active_expert_count"] = None
    nodes, devices = _count(params.get("num_nodes")), _count(params.get("devices"))
    if found["gpu_count"] is None and nodes and devices:
        found["gpu_count"] = _count(str(nodes * devices))
    untied = _truth(params.get("untie_embeddings_and_output_weights"))
    gated = True if family in GATED else False if family in UNGATED else None
    swiglu = _truth(params.get("swiglu"))
    return found | {
        "model": params.get("model_name") or params.get("model_name_or_path") or family or None,
        "is_tied": _truth(params.get("tie_word_embeddings")) if untied is None else not untied,
        "is_gated": gated if swiglu is None else swiglu,
        "recompute": _recompute(params),
        "precision": _precision(params),
        "gpu_model": next((params[n] for n in GPU_MODEL if params.get(n)), None),
    }


def _count(text: str | None) -> int | None:
    match = re.fullmatch(r"(\d{1,15})(?:\.0+)?", text or "")
    return int(match[1]) or None if match else None


def _truth(text: str | None) -> bool | None:
    if text is None or text.lower() not in (*_TRUE, *_FALSE):
        return None
    return text.lower() in _TRUE


def _recompute(params: Mapping[str, str]) -> str | None:
    granularity = params.get("recompute_granularity", "").lower()
    if granularity in ("full", "selective"):
        return granularity
    switches = ("gradient_checkpointing", "activation_checkpointing", "recompute_activations")
    known = [_truth(params.get(name)) for name in switches]
    if any(known):
        return "full"
    return "none" if False in known else None


def _precision(params: Mapping[str, str]) -> str | None:
    """Transformers' and Megatron's switches, else the text of Lightning, Accelerate, Composer."""
    if params.get("fp8", "").lower() not in _FALSE:
        return "fp8"
    for name in ("bf16", "fp16"):
        if _truth(params.get(name)):
            return name
    names = ("mixed_precision", "precision", "dtype", "torch_dtype")
    said = next((params[n].lower() for n in names if params.get(n)), "")
    patterns = {"fp8": "fp8", "bf16": "bf16|bfloat16", "fp16": r"fp16|float16|^16(?:-|$)"}
    return next((name for name, p in patterns.items() if re.search(p, said)), None)
