/*
doc = "What stragglers cost a traced job, per UTC day, and which part of the job explains it: the ratios of Lin et al., OSDI 25, over the replayed steps of what_if_step."
grain = ["cluster", "job_id", "attempt", "day_ts", "part", "part_id"]
time = "day_ts"
sort = ["job_id", "part", "part_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
part = { type = "VARCHAR", doc = "job: the whole; dp_rank, pp_stage, op, rank: slowdown with only this part as traced; slowest_ranks, last_stage: what is explained by these" }
part_id = { type = "VARCHAR", doc = "which of them" }
start_ts = { type = "TIMESTAMP", doc = "start of the first traced step of the day", null = false }
end_ts = { type = "TIMESTAMP", doc = "end of the last traced step of the day", null = false }
step_count = { type = "BIGINT", doc = "steps replayed", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "steps replayed of the steps traced that day", unit = "ratio" }
base_s = { type = "DOUBLE", doc = "part job: mean length of a replayed step as traced", unit = "s" }
no_delay_s = { type = "DOUBLE", doc = "part job: the same without launch delays", unit = "s" }
ideal_s = { type = "DOUBLE", doc = "part job: the same if every operation took what is usual for its kind", unit = "s" }
slowdown_ratio = { type = "DOUBLE", doc = "part job: S = no_delay_s / ideal_s (equation 1). Parts: the same with only this part as traced (equations 2 and 4); of a rank the smaller one of its dp_rank and its stage, as the authors approximate it", unit = "ratio" }
worst_step_ratio = { type = "DOUBLE", doc = "the largest slowdown of a single step", unit = "ratio" }
launch_ratio = { type = "DOUBLE", doc = "part job: base_s / no_delay_s, what launching late costs; 1.005 to 1.019 on the public traces", unit = "ratio" }
explained_ratio = { type = "DOUBLE", doc = "slowest_ranks: M_W (equation 5), last_stage: M_S: share of no_delay_s - ideal_s that goes when the part takes what is usual; above 1 where it even makes the step shorter than ideal_s. NULL where the job is not taken apart", unit = "ratio" }
wasted_ratio = { type = "DOUBLE", doc = "part job: 1 - 1/S, share of the time that stragglers cost", unit = "ratio" }
job_gpu_count = { type = "BIGINT", doc = "part job: GPUs of the job as far as records show", unit = "count" }
lost_gpu_s = { type = "DOUBLE", doc = "part job: (no_delay_s - ideal_s) of the replayed steps in GPU-seconds of the whole job; what steps that were not replayed lost is not in it", unit = "s" }
reason = { type = "VARCHAR", doc = "part job: why no step was replayed; jobs of which no operation was traced have this row alone" }
*/
WITH placed AS (
    SELECT *, date_trunc('day', ts) AS day_ts FROM what_if_step
),
job_step AS (
    SELECT * FROM placed WHERE part = 'job'
),
gpus AS (
    SELECT cluster, job_id, attempt, day_ts, max(gpus) AS gpus
    FROM (
        SELECT cluster, job_id, attempt, step, date_trunc('day', ts) AS day_ts,
            sum(coalesce(gpu_count, 1)) AS gpus
        FROM step_sample
        GROUP BY ALL
    )
    GROUP BY ALL
),
job_day AS (
    SELECT cluster, job_id, attempt, day_ts,
        min(ts) AS start_ts,
        max(least(ts + to_microseconds(round(base_s * 1e6)::BIGINT), day_ts + INTERVAL 1 DAY)) AS end_ts,
        count(no_delay_s) AS step_count,
        count(no_delay_s) / count(*) AS coverage_ratio,
        -- Sums of float in one order, so that the order of rows never shows.
        fsum(base_s ORDER BY step) FILTER (no_delay_s IS NOT NULL) AS base_s,
        fsum(no_delay_s ORDER BY step) AS no_delay_s,
        fsum(ideal_s ORDER BY step) AS ideal_s,
        max(no_delay_s / nullif(ideal_s, 0)) AS worst_step_ratio,
        if(count(no_delay_s) = 0, min(reason), NULL) AS reason
    FROM job_step
    GROUP BY ALL
),
-- Jobs of which only whole steps were recorded: nothing to replay, and that is said.
untraced AS (
    SELECT cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, min(ts) AS start_ts,
        max(least(ts + to_microseconds(coalesce(round(step_s * 1e6)::BIGINT, 0)),
            date_trunc('day', ts) + INTERVAL 1 DAY)) AS end_ts
    FROM step_sample
    ANTI JOIN job_step USING (cluster, job_id, attempt)
    GROUP BY ALL
),
part_day AS (
    SELECT p.cluster, p.job_id, p.attempt, p.day_ts, p.part, p.part_id,
        fsum(p.kept_s ORDER BY p.step) AS kept_s,
        fsum(p.removed_s ORDER BY p.step) AS removed_s,
        max(p.kept_s / nullif(j.ideal_s, 0)) AS worst_step_ratio
    FROM placed p
    JOIN job_step j USING (cluster, job_id, attempt, step, day_ts)
    WHERE p.part <> 'job'
    GROUP BY ALL
),
ratios AS (
    SELECT p.cluster, p.job_id, p.attempt, p.day_ts, p.part, p.part_id,
        p.kept_s / nullif(j.ideal_s, 0) AS slowdown_ratio,
        p.worst_step_ratio,
        (j.no_delay_s - p.removed_s) / nullif(j.no_delay_s - j.ideal_s, 0) AS explained_ratio
    FROM part_day p
    JOIN job_day j USING (cluster, job_id, attempt, day_ts)
),
grid AS (
    SELECT DISTINCT cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, rank, dp_rank, pp_stage
    FROM step_sample
    WHERE dp_rank IS NOT NULL AND pp_stage IS NOT NULL
),
of_rank AS (
    SELECT g.cluster, g.job_id, g.attempt, g.day_ts, 'rank' AS part, g.rank::VARCHAR AS part_id,
        min(least(d.slowdown_ratio, s.slowdown_ratio)) AS slowdown_ratio,
        NULL::DOUBLE AS worst_step_ratio, NULL::DOUBLE AS explained_ratio
    FROM grid g
    JOIN ratios d ON d.part = 'dp_rank' AND d.part_id = g.dp_rank::VARCHAR
        AND (d.cluster, d.job_id, d.attempt, d.day_ts) = (g.cluster, g.job_id, g.attempt, g.day_ts)
    JOIN ratios s ON s.part = 'pp_stage' AND s.part_id = g.pp_stage::VARCHAR
        AND (s.cluster, s.job_id, s.attempt, s.day_ts) = (g.cluster, g.job_id, g.attempt, g.day_ts)
    GROUP BY ALL
),
whole AS (
    SELECT cluster, job_id, attempt, day_ts, 'job' AS part, 'all' AS part_id,
        no_delay_s / nullif(ideal_s, 0) AS slowdown_ratio, worst_step_ratio, NULL::DOUBLE AS explained_ratio
    FROM job_day
),
every AS (
    FROM whole UNION ALL FROM ratios UNION ALL FROM of_rank
)
SELECT e.cluster, e.job_id, e.attempt, e.day_ts, e.part, e.part_id, j.start_ts, j.end_ts,
    j.step_count, j.coverage_ratio,
    if(e.part = 'job', j.base_s / nullif(j.step_count, 0), NULL) AS base_s,
    if(e.part = 'job', j.no_delay_s / nullif(j.step_count, 0), NULL) AS no_delay_s,
    if(e.part = 'job', j.ideal_s / nullif(j.step_count, 0), NULL) AS ideal_s,
    e.slowdown_ratio,
    e.worst_step_ratio,
    if(e.part = 'job', j.base_s / nullif(j.no_delay_s, 0), NULL) AS launch_ratio,
    e.explained_ratio,
    if(e.part = 'job', 1 - 1 / nullif(e.slowdown_ratio, 0), NULL) AS wasted_ratio,
    if(e.part = 'job', g.gpus::BIGINT, NULL) AS job_gpu_count,
    if(e.part = 'job', (j.no_delay_s - j.ideal_s) * g.gpus, NULL) AS lost_gpu_s,
    if(e.part = 'job', j.reason, NULL) AS reason
FROM every e
JOIN job_day j USING (cluster, job_id, attempt, day_ts)
LEFT JOIN gpus g USING (cluster, job_id, attempt, day_ts)
UNION ALL BY NAME
SELECT cluster, job_id, attempt, day_ts, 'job' AS part, 'all' AS part_id, start_ts, end_ts,
    0 AS step_count, 0.0::DOUBLE AS coverage_ratio, gpus::BIGINT AS job_gpu_count,
    'no operation was traced: the replay needs spans of operations (straggler_trace), not lengths of steps' AS reason
FROM untraced
LEFT JOIN gpus USING (cluster, job_id, attempt, day_ts)
