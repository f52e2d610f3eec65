"""What people call the same thing in MLflow: parameters and metrics by the columns they fill.

Names are compared in lower case with - and space as _, and by their last part (behind / . or :)
where the whole name is not known; metrics of evaluation and of the host are none of training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# transformers, Megatron-LM, NeMo, LLM Foundry, TorchTitan, MaxText, nanoGPT, fairseq; best first.
COUNTS = {
    "layer_count": ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "layer_count",
                    "encoder_num_layers", "base_num_decoder_layers", "decoder_layers"),
    "hidden_size": ("hidden_size", "d_model", "n_embd", "emb_dim", "base_emb_dim", "embed_dim",
                    "decoder_embed_dim", "dim"),
    "head_count": ("num_attention_heads", "n_head", "n_heads", "num_heads", "head_count",
                   "base_num_query_heads", "decoder_attention_heads"),
    "kv_head_count": ("num_key_value_heads", "num_query_groups", "n_kv_heads", "num_kv_heads",
                      "kv_n_heads", "n_head_kv", "base_num_kv_heads"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn_size": ("moe_intermediate_size", "moe_ffn_hidden_size", "intermediate_size",
                 "ffn_hidden_size", "ffn_size", "ffn_dim", "d_ff", "n_inner", "base_mlp_dim",
                 "decoder_ffn_embed_dim"),
    "vocab_size": ("padded_vocab_size", "vocab_size", "n_vocab"),
    "seq_len": ("seq_length", "seq_len", "max_seq_length", "max_seq_len", "sequence_length",
                "block_size", "context_length", "max_target_length", "encoder_seq_length"),
    "expert_count": ("num_experts", "num_local_experts", "n_routed_experts", "num_moe_experts"),
    "active_expert_count": ("num_experts_per_tok", "moe_router_topk", "moe_top_k"),
    "parameter_count": ("num_parameters", "n_parameters", "num_params", "n_params", "parameter_count",
                        "total_params", "model_parameters"),
    "active_parameter_count": ("active_parameter_count", "active_params", "num_active_params"),
    "gpu_count": ("world_size", "gpu_count", "num_gpus", "n_gpus", "num_devices"),
    "global_batch_size": ("global_batch_size", "global_train_batch_size", "total_train_batch_size"),
}  # fmt: skip
JOB = ("slurm_job_id", "job_id", "slurm_jobid")
GPU_MODEL = ("gpu_model", "gpu_name", "gpu_type", "device_name")
# Metrics: column, factor; a negative factor stands for one divided by the value.
METRICS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "step_s": (
        ("step_time", 1), ("step_time_s", 1), ("step_s", 1), ("train_step_time", 1), ("iteration_time", 1),
        ("iter_time", 1), ("train_step_timing_in_s", 1), ("time_per_step", 1), ("seconds_per_step", 1),
        ("step_time_ms", 1e-3), ("iter_time_ms", 1e-3), ("iteration_time_ms", 1e-3),
        ("elapsed_time_per_iteration_(ms)", 1e-3), ("batches_per_sec", -1), ("steps_per_sec", -1),
    ),
    "loss": (("train_loss", 1), ("loss", 1), ("training_loss", 1), ("lm_loss", 1),
             ("reduced_train_loss", 1), ("loss/train/total", 1)),
    "grad_norm": (("grad_norm", 1), ("gradient_norm", 1), ("l2_norm/grad/global", 1)),
    "token_count": (("token_count", 1), ("num_tokens", 1), ("tokens_seen", 1), ("total_tokens", 1),
                    ("num_input_tokens_seen", 1), ("consumed_tokens", 1), ("time/token", 1)),
    "step_token_count": (("step_token_count", 1), ("tokens_per_step", 1), ("tokens_per_batch", 1)),
    "sample_count": (("sample_count", 1), ("consumed_samples", 1), ("time/sample", 1)),
    "samples_per_s": (("samples_per_sec", 1), ("samples_per_second", 1), ("samples_per_s", 1)),
    "tokens_per_gpu_s": (
        ("device/tokens_per_sec", 1), ("tokens_per_sec_per_gpu", 1), ("tokens_per_second_per_gpu", 1),
        ("tokens_per_gpu_per_sec", 1), ("tokens_per_gpu_s", 1), ("tgs", 1), ("throughput(tps)", 1),
    ),
    "tokens_per_s": (("tokens_per_sec", 1), ("tokens_per_second", 1), ("tokens_per_s", 1)),
    "logged_tflops": (
        ("tflops_per_gpu", 1), ("tflops", 1), ("throughput_per_gpu_(tflop/s/gpu)", 1),
        ("device/flops_per_sec", 1e-12),
    ),
    "logged_mfu_ratio": (("mfu", 1), ("mfu(%)", 1e-2), ("mfu_percent", 1e-2)),
}  # fmt: skip
_OTHER = re.compile(r"(?:^|[/._:])(?:val|valid|validation|eval|evaluation|test|system)(?:$|[/._:])")
_PART = re.compile(r"[/.:]")
_BY_METRIC = {name: (column, place, factor) for column, names in METRICS.items()
              for place, (name, factor) in enumerate(names)}  # fmt: skip


def plain(name: str) -> str:
    """A name without the accidents of spelling."""
    return name.strip().lstrip("-").lower().replace("-", "_").replace(" ", "_")


def last_part(name: str) -> str:
    """What stands behind the last / . or : of a name."""
    return _PART.split(name)[-1]


def metric(name: str) -> tuple[str, int, float] | None:
    """Column that a metric fills, how good the name is (0 best), and the factor; or None."""
    known = plain(name)
    if _OTHER.search(known):
        return None
    parts = [part for part in (known, *_tails(known)) if part in _BY_METRIC]
    return _BY_METRIC[parts[0]] if parts else None


def _tails(name: str) -> list[str]:
    """Shorter and shorter ends of a name: a/b/c gives b/c and c."""
    return [name[match.end() :] for match in re.finditer(r"[/.:](?![^(]*\))", name)]
