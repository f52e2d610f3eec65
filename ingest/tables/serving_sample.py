"""`serving_sample`, `serving_latency`: what inference servers count, and how long requests took."""

from __future__ import annotations

from fleetmark.table import Column, Table

_WHO = (
    Column("cluster", "VARCHAR", "cluster"),
    Column("replica", "VARCHAR", "one running server: its pod, else its instance (host:port)"),
    Column("model", "VARCHAR", "model as the server names it; empty where it names none"),
    Column("ts", "TIMESTAMP", "time of the scrape, UTC"),
)
SERVING_SAMPLE = Table(
    name="serving_sample",
    doc="Counters and states of inference servers, one row per replica, model and scrape. Counts grow since "
    "the server's start; NULL where the server does not export it. Engines of one replica are summed.",
    grain=("cluster", "replica", "model", "ts"),
    columns=(
        *_WHO,
        Column("server", "VARCHAR", "vllm, sglang, tgi or triton", null=False),
        Column("node", "VARCHAR", "host it runs on, where a label or the page says"),
        Column("gpu_count", "BIGINT", "GPUs of the replica, as stated by the user", "count"),
        Column("server_start_ts", "TIMESTAMP", "when the process began"),
        Column("request_count", "BIGINT", "requests finished; of Triton and TGI those that succeeded", "count"),
        Column("failed_request_count", "BIGINT", "requests that failed, where told apart", "count"),
        Column("prompt_token_count", "BIGINT", "tokens of prompts", "count"),
        Column("generation_token_count", "BIGINT", "tokens generated", "count"),
        Column("running_count", "DOUBLE", "requests being worked on", "count"),
        Column("waiting_count", "DOUBLE", "requests in the queue", "count"),
        Column("kv_cache_ratio", "DOUBLE", "share of the key-value cache in use; mean of the engines", "ratio"),
        Column("startup_s", "DOUBLE", "from start to ready, as SGLang states it", "s"),
        Column("weight_load_s", "DOUBLE", "of that loading weights, as SGLang states it", "s"),
    ),
    time="ts",
    sort=("replica", "model", "ts"),
)  # fmt: skip
SERVING_LATENCY = Table(
    name="serving_latency",
    doc="Histograms of request latencies of inference servers, one row per finite bucket: how many took at "
    "most le_s since the server's start. How well it resolves an objective is the server's choice of buckets.",
    grain=("cluster", "replica", "model", "ts", "quantity", "le_s"),
    columns=(
        *_WHO,
        Column(
            "quantity",
            "VARCHAR",
            "ttft: time to the first token; tpot: time per token after it, per request (of engines that do not "
            "tell: per token); e2e: whole request",
        ),
        Column("le_s", "DOUBLE", "upper bound of the bucket", "s"),
        Column("within_count", "BIGINT", "observations of at most le_s", "count"),
        Column("total_count", "BIGINT", "all observations", "count"),
    ),
    time="ts",
    sort=("replica", "model", "quantity", "ts", "le_s"),
)
