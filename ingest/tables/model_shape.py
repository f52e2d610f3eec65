"""`model_shape`: what a training job trains, and on what, as far as its logs do not say."""

from __future__ import annotations

from fleetmark.table import Column, Table

MODEL_SHAPE = Table(
    name="model_shape",
    doc="The shape of the model that a job trains, and facts of the run that FLOP counts need. One row "
    "per job; what is not stated is NULL, and conventions that need it give no figure.",
    grain=("cluster", "job_id"),
    latest=("recorded_ts",),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column("job_id", "VARCHAR", "job, as in train_step"),
        Column("model", "VARCHAR", "name of the model"),
        Column("parameter_count", "DOUBLE", "parameters, embeddings included", "count"),
        Column(
            "active_parameter_count",
            "DOUBLE",
            "parameters that a token passes through; only for experts, else parameter_count",
            "count",
        ),
        Column("layer_count", "BIGINT", "transformer layers", "count"),
        Column("hidden_size", "BIGINT", "width"),
        Column("head_count", "BIGINT", "attention heads", "count"),
        Column("kv_head_count", "BIGINT", "key and value heads; NULL: as many as heads", "count"),
        Column("head_dim", "BIGINT", "width of a head; NULL: hidden_size by head_count"),
        Column("ffn_size", "BIGINT", "inner width of the feed-forward block, of one expert"),
        Column("is_gated", "BOOLEAN", "feed-forward with a gate (three matrices, not two)"),
        Column("vocab_size", "BIGINT", "vocabulary, padding included"),
        Column("is_tied", "BOOLEAN", "input and output embedding are one matrix"),
        Column("seq_len", "BIGINT", "tokens per sample in training, not what the model can take"),
        Column("expert_count", "BIGINT", "experts of a layer; NULL: dense", "count"),
        Column("active_expert_count", "BIGINT", "experts a token passes, shared ones too", "count"),
        Column("moe_layer_count", "BIGINT", "layers with experts; NULL: all", "count"),
        Column("recompute", "VARCHAR", "none, selective or full recomputation of activations"),
        Column("precision", "VARCHAR", "of the matrix products: bf16, fp16, fp8, fp4, tf32"),
        Column("gpu_count", "BIGINT", "GPUs of the job, where no scheduler record says", "count"),
        Column("gpu_model", "VARCHAR", "model of its GPUs, where no scheduler record says"),
        Column("recorded_ts", "TIMESTAMP", "when it was stated: of two the later counts"),
    ),
)
