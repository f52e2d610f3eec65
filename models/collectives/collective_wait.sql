/*
doc = "Per collective of traced steps: who arrived last and how long the others waited. All members of a collective end together, so a member waited as much longer as its part lasted than the shortest one: no two clocks are compared. Sends and receives are left out, but kernels that do both, which an all-to-all is made of, count in steps in which all ranks ran as many."
grain = ["cluster", "job_id", "attempt", "day_ts", "step", "op", "member_group", "number"]
time = "ts"
sort = ["job_id", "ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
day_ts = { type = "TIMESTAMP", doc = "UTC day of the members' parts; where clocks differ at midnight, those of each day are a collective of their own" }
step = { type = "BIGINT", doc = "training step; in profiler traces the profiler's" }
op = { type = "VARCHAR", doc = "kind of collective, such as grads-reduce-scatter or all_reduce" }
member_group = { type = "VARCHAR", doc = "who takes part: stage N of an operation trace, description and name of the process group of a profiler trace" }
number = { type = "BIGINT", doc = "which one of its kind in the step, from 1" }
ts = { type = "TIMESTAMP", doc = "start of the step (operation traces) or of the earliest member's part (profiler traces, by that host's clock)" }
ranks = { type = "INTEGER[]", doc = "ranks whose part was recorded, in order" }
member_count = { type = "BIGINT", doc = "how many", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "those of the group's ranks; NULL where its size is unknown", unit = "ratio" }
last_rank = { type = "INTEGER", doc = "the rank that arrived last; NULL where nobody waited" }
shortest_s = { type = "DOUBLE", doc = "length of the last one's part: at most the transfer", unit = "s" }
longest_wait_s = { type = "DOUBLE", doc = "what the first to arrive waited for the last", unit = "s" }
wait_s = { type = "DOUBLE", doc = "waiting of all recorded members", unit = "s" }
job_step_s = { type = "DOUBLE", doc = "length of the step: that of the job's longest rank", unit = "s" }
lost_gpu_s = { type = "DOUBLE", doc = "wait_s in GPU-seconds: each recorded rank stands for its gpu_count", unit = "s" }
*/
WITH operation AS (
    SELECT cluster, job_id, attempt, step, op, 'stage ' || pp_stage AS member_group, rank, ts,
        date_trunc('day', ts) AS day_ts,
        unnest(duration_s) AS duration_s,
        generate_subscripts(duration_s, 1) AS number,
        NULL::BIGINT AS pg_size
    FROM trace_op
    -- Their members are the data-parallel ranks of a stage; of other kinds others take part.
    WHERE op IN ('params-all-gather', 'grads-reduce-scatter', 'separate-grads-all-reduce')
),
kernel AS (
    SELECT cluster, job_id, attempt, step, function AS op,
        -- All tensor-parallel groups of a job share one description; the name tells them apart.
        coalesce(nullif(concat_ws(' ', pg_desc, pg_name), ''), comm_id, 'unknown') AS member_group,
        rank, ts, date_trunc('day', ts) AS day_ts, duration_s,
        row_number() OVER (own ORDER BY start_s, span_no) AS number,
        count(*) OVER own AS numbers,
        pg_size
    FROM trace_span
    WHERE kind = 'collective' AND step IS NOT NULL AND function IS NOT NULL
        AND function NOT IN ('send', 'recv')
    WINDOW own AS (PARTITION BY cluster, job_id, attempt, day_ts, step, op, member_group, rank)
),
-- The n-th of one rank is the n-th of another only where both recorded as many.
aligned AS (
    SELECT * EXCLUDE (numbers)
    FROM kernel
    WINDOW same AS (PARTITION BY cluster, job_id, attempt, day_ts, step, op, member_group)
    QUALIFY min(numbers) OVER same = max(numbers) OVER same
),
part AS (
    FROM operation UNION ALL BY NAME FROM aligned
),
rank_step AS (
    SELECT cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, rank, step,
        coalesce(gpu_count, 1) AS gpus,
        max(step_s) OVER (PARTITION BY cluster, job_id, attempt, day_ts, step) AS job_step_s
    FROM step_sample
),
met AS (
    SELECT p.*, gpus, job_step_s,
        min(duration_s) OVER together AS shortest_s
    FROM part p
    LEFT JOIN rank_step USING (cluster, job_id, attempt, day_ts, rank, step)
    WINDOW together AS (PARTITION BY cluster, job_id, attempt, day_ts, step, op, member_group, number)
)
SELECT cluster, job_id, attempt, day_ts, step, op, member_group, number,
    min(ts) AS ts,
    list(rank ORDER BY rank) AS ranks,
    count(*) AS member_count,
    count(*) / max(pg_size) AS coverage_ratio,
    if(max(duration_s) > min(duration_s), arg_min(rank, (duration_s, rank)), NULL) AS last_rank,
    min(shortest_s) AS shortest_s,
    max(duration_s) - min(duration_s) AS longest_wait_s,
    -- Sums of whole nanoseconds do not depend on the order of rows.
    sum(round((duration_s - shortest_s) * 1e9)::BIGINT) / 1e9 AS wait_s,
    max(job_step_s) AS job_step_s,
    sum(round((duration_s - shortest_s) * 1e9)::BIGINT * coalesce(gpus, 1)) / 1e9 AS lost_gpu_s
FROM met
GROUP BY ALL
HAVING count(*) > 1
