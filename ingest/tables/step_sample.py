"""`step_sample`: one training step as one rank lived it."""

from __future__ import annotations

from fleetmark.table import Column, Table

STEP_SAMPLE = Table(
    name="step_sample",
    doc="Training steps, one row per rank and step. Durations of a kind are sums over the rank's "
    "operations; kinds overlap in time, so they may add up to more than the step.",
    grain=("cluster", "job_id", "attempt", "rank", "step"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("rank", "INTEGER", "global rank"),
        Column("step", "BIGINT", "training step (iteration) as the framework numbers it"),
        Column("ts", "TIMESTAMP", "start of the step"),
        Column(
            "time_basis",
            "VARCHAR",
            "absolute: ts is a clock time; anchored: the first step's start was stated and later "
            "ones follow without gaps, so they stand too early where steps are left out; "
            "relative: only order and lengths hold, the calendar does not",
            null=False,
        ),
        Column("dp_rank", "INTEGER", "rank in its data-parallel group"),
        Column("pp_stage", "INTEGER", "pipeline stage; 0 where there is no pipeline"),
        Column("tp_rank", "INTEGER", "rank in its tensor-parallel group"),
        Column("gpu_count", "INTEGER", "GPUs this record stands for", "count"),
        Column("node", "VARCHAR", "node the rank ran on"),
        Column("gpu_uuid", "VARCHAR", "GPU the rank ran on"),
        Column("pid", "BIGINT", "process of the rank on that node"),
        Column("step_s", "DOUBLE", "start of the step to the end of this rank's last part", "s"),
        Column("compute_s", "DOUBLE", "forward, backward and other model arithmetic", "s"),
        Column("forward_s", "DOUBLE", "forward passes", "s"),
        Column("backward_s", "DOUBLE", "backward passes", "s"),
        Column("communication_s", "DOUBLE", "sends, receives, collectives; waiting included", "s"),
        Column("optimizer_s", "DOUBLE", "optimizer, gradient clipping included", "s"),
        Column("other_s", "DOUBLE", "what is none of these, such as garbage collection", "s"),
        Column("data_s", "DOUBLE", "waiting for input data", "s"),
        Column("launch_s", "DOUBLE", "GPU idle because the host had not issued work yet", "s"),
        Column("checkpoint_s", "DOUBLE", "step blocked by writing a checkpoint", "s"),
        Column("op_count", "INTEGER", "operations that the record sums up", "count"),
        Column("tokens", "BIGINT", "tokens this rank trained on in the step", "count"),
        Column("seq_len", "BIGINT", "longest sequence of the rank's batch", "tokens"),
        Column("loss", "DOUBLE", "loss of this rank's batch, before any averaging over ranks"),
        Column("grad_norm", "DOUBLE", "norm of this rank's gradients, before averaging"),
        Column(
            "nonfinite",
            "VARCHAR[]",
            "which of loss and grad_norm were recorded as NaN or infinite, and are NULL therefore; "
            "NULL where neither was recorded",
        ),
        Column(
            "weight_hash",
            "VARCHAR",
            "hash of this rank's weights after the step: replicas of one shard must agree",
        ),
    ),
    time="ts",
    sort=("job_id", "rank", "ts"),
)
