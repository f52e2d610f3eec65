/*
doc = "Who held GPUs on which node and when: one row per attempt and node of its allocation. Which of the node's GPUs is not in accounting records."
grain = ["cluster", "job_id", "attempt", "node"]
time = "start_ts"
end = "end_ts"
observed = "observed_ts"
sort = ["cluster", "node", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
node = { type = "VARCHAR", doc = "node of the allocation" }
raw_job_id = { type = "VARCHAR", doc = "SLURM_JOB_ID of the run, as telemetry and logs carry it" }
principal = { type = "VARCHAR", doc = "user who submitted the job" }
account = { type = "VARCHAR", doc = "account charged" }
partition = { type = "VARCHAR", doc = "partition" }
start_ts = { type = "TIMESTAMP", doc = "start of the allocation" }
end_ts = { type = "TIMESTAMP", doc = "end; NULL while open" }
observed_ts = { type = "TIMESTAMP", doc = "until when an open allocation is known to have lasted" }
gpu_count = { type = "DOUBLE", doc = "GPUs held on this node; sums to job_attempt.alloc_gpus over the nodes; NULL if that is unknown", unit = "count" }
gpu_model = { type = "VARCHAR", doc = "model, if all of the attempt's GPUs are of one" }
gpu_identity_source = { type = "VARCHAR", doc = "how gpu_count was found: single_node (exact), even_split (the attempt's GPUs divided by its nodes: a guess, and a fraction where it does not divide), unknown" }
*/
SELECT
    cluster,
    job_id,
    attempt,
    unnest(node_list) AS node,
    raw_job_id,
    principal,
    account,
    partition,
    start_ts,
    end_ts,
    observed_ts,
    alloc_gpus / len(node_list)::DOUBLE AS gpu_count,
    CASE WHEN len(gpu_models) = 1 AND gpu_model_counts[1] = alloc_gpus THEN gpu_models[1] END AS gpu_model,
    CASE
        WHEN alloc_gpus IS NULL THEN 'unknown'
        WHEN len(node_list) = 1 THEN 'single_node'
        ELSE 'even_split'
    END AS gpu_identity_source
FROM job_attempt
WHERE start_ts IS NOT NULL AND len(node_list) > 0
