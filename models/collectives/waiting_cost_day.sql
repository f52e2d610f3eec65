/*
doc = "What waiting in collectives costs, per job, UTC day and kind of collective. Who arrives last most often is shown beside how much that matters: a rank may be last in every step and cost nothing, and where a pipeline carries a delay through all stages, the last of each stage is innocent but one."
grain = ["cluster", "job_id", "attempt", "day_ts", "op"]
time = "day_ts"
sort = ["job_id", "op"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt" }
principal = { type = "VARCHAR", doc = "user who submitted the job; NULL where no scheduler record says" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
op = { type = "VARCHAR", doc = "kind of collective" }
collective_count = { type = "BIGINT", doc = "collectives with two recorded members or more", unit = "count" }
step_count = { type = "BIGINT", doc = "steps with such collectives", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "those steps of all steps of the job seen that day", unit = "ratio" }
last_rank = { type = "INTEGER", doc = "the rank that arrived last most often" }
last_ratio = { type = "DOUBLE", doc = "how often, of the collectives of its group", unit = "ratio" }
wait_ratio = { type = "DOUBLE", doc = "longest wait by the length of the step, median over the collectives", unit = "ratio" }
is_material = { type = "BOOLEAN", doc = "wait_ratio reaches min_wait_ratio; NULL where lengths of steps are unknown" }
wait_s = { type = "DOUBLE", doc = "waiting of all recorded ranks", unit = "s" }
lost_gpu_s = { type = "DOUBLE", doc = "the same in GPU-seconds", unit = "s" }

[params.min_wait_ratio]
default = 0.01
doc = "ratio of the step. Public trace ST has a last arriver in every step that costs 0.1 ms of 2.2 s."
*/
WITH per_rank AS (
    SELECT cluster, job_id, attempt, day_ts, op, member_group, last_rank, count(*) AS times
    FROM collective_wait
    GROUP BY ALL
),
share AS (
    SELECT *,
        times / sum(times) OVER (PARTITION BY cluster, job_id, attempt, day_ts, op, member_group) AS ratio
    FROM per_rank
),
most_often AS (
    SELECT cluster, job_id, attempt, day_ts, op,
        arg_max(last_rank, (ratio, -last_rank)) AS last_rank,
        max(ratio) AS last_ratio
    FROM share
    WHERE last_rank IS NOT NULL
    GROUP BY ALL
),
seen AS (
    SELECT cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, count(DISTINCT step) AS steps
    FROM step_sample
    GROUP BY ALL
),
who AS (
    SELECT cluster, job_id, min(principal) AS principal
    FROM job_attempt
    GROUP BY ALL
),
cost AS (
    SELECT cluster, job_id, attempt, day_ts, op,
        count(*) AS collective_count,
        count(DISTINCT step) AS step_count,
        median(longest_wait_s / nullif(job_step_s, 0)) AS wait_ratio,
        sum(round(wait_s * 1e9)::BIGINT) / 1e9 AS wait_s,
        sum(round(lost_gpu_s * 1e9)::BIGINT) / 1e9 AS lost_gpu_s
    FROM collective_wait
    GROUP BY ALL
)
SELECT c.cluster, c.job_id, c.attempt, principal, c.day_ts, c.op, collective_count, step_count,
    step_count / steps AS coverage_ratio,
    last_rank, last_ratio, wait_ratio,
    wait_ratio >= getvariable('min_wait_ratio') AS is_material,
    wait_s, lost_gpu_s
FROM cost c
LEFT JOIN most_often USING (cluster, job_id, attempt, day_ts, op)
LEFT JOIN seen USING (cluster, job_id, attempt, day_ts)
LEFT JOIN who USING (cluster, job_id)
