/*
doc = """
GPU-hours per attempt, day, owner and culprit, with whom and what they belong to and what they cost: group it by
principal, account, gpu_model, culprit, cause or day. Money only where a price is stated for the cluster and the GPU
model (or for every model, `*`) at that day.
"""
grain = ["cluster", "job_id", "attempt", "day_ts", "cause", "culprit"]
time = "day_ts"
sort = ["cluster", "day_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job, as in goodput_segment" }
attempt = { type = "BIGINT", doc = "attempt, as in goodput_segment" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
cause = { type = "VARCHAR", doc = "goodput_segment.class" }
culprit = { type = "VARCHAR", doc = "node that the time is lost to; empty: nobody in particular, or not known" }
principal = { type = "VARCHAR", doc = "user who submitted the job" }
account = { type = "VARCHAR", doc = "account charged: the team" }
partition = { type = "VARCHAR", doc = "partition" }
gpu_model = { type = "VARCHAR", doc = "model of the attempt's GPUs, where the scheduler types them and all are of one" }
evidence = { type = "VARCHAR", doc = "what is known of the attempt on the day, as in goodput_segment", null = false }
gpu_h = { type = "DOUBLE", doc = "GPU-hours", unit = "gpu_h", null = false }
in_step_gpu_h = { type = "DOUBLE", doc = "of these, part of steps that were kept", unit = "gpu_h", null = false }
cost = { type = "DOUBLE", doc = "gpu_h times the price of the day; NULL: no price" }
currency = { type = "VARCHAR", doc = "currency of cost" }
*/
WITH owned AS (
    SELECT
        cluster, job_id, attempt, date_trunc('day', start_ts) AS day_ts, class AS cause,
        coalesce(culprit, '') AS culprit,
        any_value(evidence) AS evidence,
        sum(round(gpu_s * 1e6)::BIGINT) / 3.6e9 AS gpu_h,
        coalesce(sum(round(gpu_s * 1e6)::BIGINT) FILTER (in_step), 0) / 3.6e9 AS in_step_gpu_h
    FROM goodput_segment
    WHERE gpu_s IS NOT NULL
    GROUP BY ALL
),
held AS (
    SELECT
        o.*, principal, account, partition,
        if(len(gpu_models) = 1 AND gpu_model_counts[1] = alloc_gpus, gpu_models[1], NULL) AS gpu_model
    FROM owned o
    LEFT JOIN job_attempt USING (cluster, job_id, attempt)
)
SELECT
    h.cluster, job_id, attempt, day_ts, cause, culprit, principal, account, partition, h.gpu_model, evidence,
    gpu_h, in_step_gpu_h, gpu_h * price_per_gpu_h AS cost, currency
FROM held h
LEFT JOIN price p
    ON p.cluster = h.cluster AND p.gpu_model IN (h.gpu_model, '*')
    AND p.start_ts <= day_ts AND coalesce(p.end_ts, 'infinity'::TIMESTAMP) > day_ts
-- The price of the model before that of every model, the newest of two.
QUALIFY row_number() OVER (
    PARTITION BY h.cluster, job_id, attempt, day_ts, cause, culprit ORDER BY p.gpu_model = '*', p.start_ts DESC
) = 1
