/*
doc = """
Training steps, once for each time they ran: of the rows of train_step that tell of the same execution (logs of
several nodes, two logs of one run) the first stays. Two rows of a step are one execution when the second begins before
the first has ended; a step that was lost and repeated after a restart ends before it begins again.
"""
grain = ["cluster", "job_id", "attempt", "step", "ts"]
time = "ts"
lookback = "1d"
sort = ["job_id", "ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt, as in train_step", unit = "s" }
step = { type = "BIGINT", doc = "training step as the framework numbers it" }
ts = { type = "TIMESTAMP", doc = "start of the step; its end where step_s is NULL" }
time_basis = { type = "VARCHAR", doc = "absolute or relative, as in train_step", null = false }
step_s = { type = "DOUBLE", doc = "length of the step", unit = "s" }
framework = { type = "VARCHAR", doc = "who wrote the record" }
global_batch_size = { type = "BIGINT", doc = "samples of the step over all ranks", unit = "count" }
step_token_count = { type = "BIGINT", doc = "tokens of the step over all ranks", unit = "count" }
sample_count = { type = "BIGINT", doc = "samples trained on since the start of the run", unit = "count" }
token_count = { type = "BIGINT", doc = "tokens trained on since the start of the run", unit = "count" }
seq_len = { type = "BIGINT", doc = "tokens per sample", unit = "count" }
samples_per_s = { type = "DOUBLE", doc = "samples per second over all ranks, as logged", unit = "1/s" }
tokens_per_gpu_s = { type = "DOUBLE", doc = "tokens per second and GPU, as logged", unit = "1/s" }
loss = { type = "DOUBLE", doc = "training loss" }
grad_norm = { type = "DOUBLE", doc = "norm of the gradients" }
logged_tflops = { type = "DOUBLE", doc = "TFLOP/s per GPU as the log states it", unit = "TFLOP/s" }
logged_mfu_ratio = { type = "DOUBLE", doc = "MFU as the log states it", unit = "ratio" }

[params.same_s]
default = 1.0
doc = "s; rows of a step without length are one execution within it: nodes print a step they ended together within far less. Own choice."
*/
SELECT
    cluster, job_id, attempt, step, ts, time_basis, step_s, framework, global_batch_size, step_token_count,
    sample_count, token_count, seq_len, samples_per_s, tokens_per_gpu_s, loss, grad_norm, logged_tflops, logged_mfu_ratio
FROM train_step
QUALIFY ts >= coalesce(
    max(ts + to_microseconds((coalesce(step_s, getvariable('same_s')) * 1e6)::BIGINT)) OVER (
        PARTITION BY cluster, job_id, attempt, step ORDER BY ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ),
    ts
)
