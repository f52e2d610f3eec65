"""Metrics of inference servers by the columns they fill.

vLLM 0.4 to 0.12 (docs/design/metrics.md, docs.vllm.ai production metrics), SGLang 0.4 and 0.5
(references/production_metrics), TGI 2 and 3 (reference/metrics), Triton 22.08 to 25.x
(docs/user_guide/metrics.md, and tensorrtllm_backend README for nv_trt_llm and nv_llm). A colon in a
name is read as _, as collectors and Ray write it; _total may be missing. Ray puts ray_ in front and
names the replica in ReplicaId, before vLLM 0.11 in WorkerId only (vllm-project/vllm pull request 24267).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

NAMES = r"^(?:ray_)?(?:vllm|sglang)[:_]|^tgi_|^nv_(?:inference|trt_llm|llm)_|^process_start_time_seconds$"


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is.

    column   of serving_sample; or the quantity of serving_latency, where `is_histogram`
    factor   from its unit
    combine  how several series of a replica and model become one: sum or mean
    where    a label's value that must be there, as `label=value`
    """

    server: str
    column: str
    factor: float = 1.0
    combine: str = "sum"
    is_histogram: bool = False
    where: str = ""


def _engine(server: str, running: str, waiting: str, requests: str) -> dict[str, Metric]:
    found = {
        f"{requests}_total": Metric(server, "request_count"),
        "prompt_tokens_total": Metric(server, "prompt_token_count"),
        "generation_tokens_total": Metric(server, "generation_token_count"),
        running: Metric(server, "running_count"),
        waiting: Metric(server, "waiting_count"),
        "time_to_first_token_seconds": Metric(server, "ttft", is_histogram=True),
        "inter_token_latency_seconds": Metric(server, "tpot_token", is_histogram=True),
        "e2e_request_latency_seconds": Metric(server, "e2e", is_histogram=True),
    }
    return {f"{server}_{name}": metric for name, metric in found.items()}


METRICS: Mapping[str, Metric] = {
    **_engine("vllm", "num_requests_running", "num_requests_waiting", "request_success"),
    "vllm_kv_cache_usage_perc": Metric("vllm", "kv_cache_ratio", combine="mean"),
    "vllm_gpu_cache_usage_perc": Metric("vllm", "kv_cache_ratio", combine="mean"),
    "vllm_request_time_per_output_token_seconds": Metric("vllm", "tpot", is_histogram=True),
    "vllm_time_per_output_token_seconds": Metric("vllm", "tpot_iteration", is_histogram=True),
    **_engine("sglang", "num_running_reqs", "num_queue_reqs", "num_requests"),
    "sglang_token_usage": Metric("sglang", "kv_cache_ratio", combine="mean"),
    "sglang_time_per_output_token_seconds": Metric("sglang", "tpot", is_histogram=True),
    "sglang_engine_startup_time": Metric("sglang", "startup_s", combine="max"),
    "sglang_engine_load_weights_time": Metric("sglang", "weight_load_s", combine="max"),
    "tgi_request_success": Metric("tgi", "request_count"),
    "tgi_request_failure": Metric("tgi", "failed_request_count"),
    "tgi_request_input_length_sum": Metric("tgi", "prompt_token_count"),
    "tgi_request_generated_tokens_sum": Metric("tgi", "generation_token_count"),
    "tgi_batch_current_size": Metric("tgi", "running_count"),
    "tgi_queue_size": Metric("tgi", "waiting_count"),
    "tgi_request_duration": Metric("tgi", "e2e", is_histogram=True),
    "tgi_request_mean_time_per_token_duration": Metric("tgi", "tpot", is_histogram=True),
    "nv_inference_request_success": Metric("triton", "request_count"),
    "nv_inference_request_failure": Metric("triton", "failed_request_count"),
    "nv_inference_pending_request_count": Metric("triton", "waiting_count"),
    "nv_inference_first_response_histogram_ms": Metric("triton", "ttft", 1e-3, is_histogram=True),
    "nv_trt_llm_request_metrics": Metric("triton", "running_count", where="request_type=active"),
    "nv_trt_llm_kv_cache_block_metrics": Metric(
        "triton", "kv_cache_ratio", combine="mean", where="kv_cache_block_type=fraction"
    ),
    "nv_llm_input_token_len_sum": Metric("triton", "prompt_token_count"),
    "nv_llm_output_token_len_sum": Metric("triton", "generation_token_count"),
}
RAY = "ray_"
# Of several histograms of one quantity the first that a replica exports counts: per request, per token,
# and the name that vLLM had for the latter before 0.11.
TPOT = ("tpot", "tpot_token", "tpot_iteration")
# Ray runs several replicas in a pod.
RAY_REPLICA = ("ReplicaId", "replica", "WorkerId")
REPLICA = ("pod", "pod_name", "kubernetes_pod_name", "k8s_pod_name")
NODE = ("node", "kubernetes_node", "k8s_node_name", "Hostname", "hostname")
MODEL = ("model_name", "model", "served_model_name", "model_id")


def metric_of(name: str) -> tuple[Metric, bool] | None:
    """What a series of this name is, and whether it is a histogram's bucket; None for others."""
    plain = re.sub(r"[:.]", "_", name).removeprefix(RAY)
    if plain in METRICS and not METRICS[plain].is_histogram:
        return METRICS[plain], False
    if f"{plain}_total" in METRICS:
        return METRICS[f"{plain}_total"], False
    base = plain.removesuffix("_bucket")
    found = METRICS.get(base)
    if found is None or base == plain or not found.is_histogram:
        return None
    return found, True
