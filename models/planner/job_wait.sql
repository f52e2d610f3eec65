/*
doc = """
How long each attempt waited, and what for: the rows behind queue_wait, queue_wait_all_demand and bounded_slowdown,
for percentiles over any window and grouping. Abandoned attempts and those still waiting are kept; parts of a
heterogeneous job wait once, with their GPUs added. A wait of 0 is a wait.
"""
grain = ["cluster", "job_id", "attempt"]
time = "attempt_ts"
sort = ["cluster", "attempt_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the job was given to" }
job_id = { type = "VARCHAR", doc = "job.job_id: of a heterogeneous job the id all parts share" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
attempt_ts = { type = "TIMESTAMP", doc = "submission of the attempt: waits belong to the day on which they began" }
principal = { type = "VARCHAR", doc = "user who submitted it" }
account = { type = "VARCHAR", doc = "account charged; namespace on Kubernetes" }
partition = { type = "VARCHAR", doc = "partition, queue or virtual cluster; '' where none is recorded" }
qos = { type = "VARCHAR", doc = "quality of service or priority class; '' where none is recorded" }
gpu_model = { type = "VARCHAR", doc = "model of the GPUs held; mixed for several; '' where not recorded, as of what never started" }
gpu_count = { type = "DOUBLE", doc = "GPUs allocated, else asked for, shares of one included; NULL if neither is recorded", unit = "count" }
size_bucket = { type = "VARCHAR", doc = "gpu_count as 0, <1, 1, 2-7, 8, 9-64, 65-512, 513-2048, >2048, other (a number of whole GPUs and a share below 8), unknown" }
outcome = { type = "VARCHAR", doc = "started, abandoned (ended without a start), waiting (when last observed)" }
submit_wait_s = { type = "DOUBLE", doc = "submit to start; NULL unless it started", unit = "s" }
eligible_wait_s = { type = "DOUBLE", doc = "eligible to start; NULL unless both are recorded", unit = "s" }
first_wait_s = { type = "DOUBLE", doc = "first submit to first start of the whole job, on the row of its first attempt", unit = "s" }
demand_wait_s = { type = "DOUBLE", doc = "submit to start, to the end if abandoned, to the last observation if waiting (then the wait is at least that)", unit = "s" }
run_s = { type = "DOUBLE", doc = "start to end less suspended; NULL unless both are recorded", unit = "s" }
bounded_slowdown_ratio = { type = "DOUBLE", doc = "max(1, (submit_wait_s + run_s) / max(run_s, min_run_s)); NULL unless it started and ended", unit = "ratio" }
timelimit_s = { type = "BIGINT", doc = "time limit asked for", unit = "s" }
has_all_attempts = { type = "BOOLEAN", doc = "job_attempt.has_all_attempts: false if earlier attempts are stated to be missing" }

[params.min_run_s]
default = 600
doc = "s; runs shorter than this count as this long in the slowdown, so that trivial jobs do not rule it. Bounded slowdown with 10 s by Feitelson et al. 1997; 600 s suits jobs that load a model first"
*/
WITH part AS (
    SELECT
        *,
        coalesce(het_job_id, job_id) AS whole_job_id,
        coalesce(alloc_gpu_amount, alloc_gpus, req_gpu_amount, req_gpus)::DOUBLE AS gpus,
        CASE WHEN len(gpu_models) > 1 THEN 'mixed' ELSE coalesce(gpu_models[1], '') END AS model
    FROM job_attempt
),
run AS (
    SELECT
        cluster, job_id, attempt, attempt_ts, principal, account, partition, qos, model, gpus, submit_ts,
        eligible_ts, start_ts, end_ts, observed_ts, phase, suspended_s, timelimit_s, has_all_attempts
    FROM part
    WHERE het_job_id IS NULL
    UNION ALL BY NAME
    SELECT
        cluster, whole_job_id AS job_id, attempt,
        any_value(attempt_ts) AS attempt_ts,
        first(principal ORDER BY het_offset) AS principal,
        first(account ORDER BY het_offset) AS account,
        first(partition ORDER BY het_offset) AS partition,
        first(qos ORDER BY het_offset) AS qos,
        CASE WHEN count(DISTINCT model) = 1 THEN any_value(model) ELSE 'mixed' END AS model,
        sum(gpus) AS gpus,
        min(submit_ts) AS submit_ts,
        max(eligible_ts) AS eligible_ts,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        max(observed_ts) AS observed_ts,
        min(phase) AS phase,
        max(suspended_s) AS suspended_s,
        max(timelimit_s) AS timelimit_s,
        bool_and(has_all_attempts) AS has_all_attempts
    FROM part
    WHERE het_job_id IS NOT NULL
    GROUP BY cluster, whole_job_id, attempt
),
timed AS (
    SELECT
        *,
        CASE WHEN start_ts IS NOT NULL THEN 'started' WHEN phase = 2 THEN 'abandoned' ELSE 'waiting' END AS outcome,
        epoch(start_ts - submit_ts) AS submit_s,
        epoch(start_ts - eligible_ts) AS eligible_s,
        epoch(coalesce(start_ts, end_ts, if(phase < 2, observed_ts, NULL)) - submit_ts) AS demand_s,
        epoch(end_ts - start_ts) - coalesce(suspended_s, 0) AS ran_s
    FROM run
),
-- Clocks of two machines may put a start before its submit: a wait of 0. (greatest() would turn NULL into 0.)
clipped AS (
    SELECT
        *,
        if(submit_s < 0, 0, submit_s)::DOUBLE AS submit_wait_s,
        if(eligible_s < 0, 0, eligible_s)::DOUBLE AS eligible_wait_s,
        if(demand_s < 0, 0, demand_s)::DOUBLE AS demand_wait_s,
        if(ran_s < 0, 0, ran_s)::DOUBLE AS run_s
    FROM timed
)
SELECT
    t.cluster, t.job_id, t.attempt, t.attempt_ts, t.principal, t.account,
    coalesce(t.partition, '') AS partition,
    coalesce(t.qos, '') AS qos,
    t.model AS gpu_model,
    t.gpus AS gpu_count,
    CASE
        WHEN gpus IS NULL THEN 'unknown'
        WHEN gpus = 0 THEN '0'
        WHEN gpus < 1 THEN '<1'
        WHEN gpus = 1 THEN '1'
        WHEN gpus < 8 THEN if(gpus >= 2, '2-7', 'other')
        WHEN gpus = 8 THEN '8'
        WHEN gpus <= 64 THEN '9-64'
        WHEN gpus <= 512 THEN '65-512'
        WHEN gpus <= 2048 THEN '513-2048'
        ELSE '>2048'
    END AS size_bucket,
    outcome,
    submit_wait_s,
    eligible_wait_s,
    j.first_wait_s::DOUBLE AS first_wait_s,
    demand_wait_s,
    run_s,
    CASE
        WHEN submit_wait_s IS NOT NULL AND run_s IS NOT NULL
        THEN greatest(1, (submit_wait_s + run_s) / greatest(run_s, getvariable('min_run_s')))
    END::DOUBLE AS bounded_slowdown_ratio,
    t.timelimit_s,
    t.has_all_attempts
FROM clipped AS t
LEFT JOIN (SELECT cluster, job_id, job_ts, first_wait_s FROM job) AS j
    ON j.cluster = t.cluster AND j.job_id = t.job_id AND j.job_ts = t.attempt_ts
