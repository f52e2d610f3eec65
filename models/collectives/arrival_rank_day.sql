/*
doc = "Ranks of a job by how long the others waited for them in collectives, per UTC day, with what their compute says. Arriving last alone blames nobody: a pipeline carries a delay to every stage, and on identical ranks somebody is always last by nothing."
grain = ["cluster", "job_id", "attempt", "rank", "day_ts"]
time = "day_ts"
sort = ["job_id", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt" }
rank = { type = "INTEGER", doc = "global rank" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
collective_count = { type = "BIGINT", doc = "collectives in which it met others", unit = "count" }
step_count = { type = "BIGINT", doc = "steps with these", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "those steps of all steps of the job seen that day", unit = "ratio" }
last_ratio = { type = "DOUBLE", doc = "collectives in which it arrived last", unit = "ratio" }
caused_ratio = { type = "DOUBLE", doc = "longest waits for it, summed over the day, by the length of its steps: what one other rank lost at most", unit = "ratio" }
compute_ratio = { type = "DOUBLE", doc = "compute by that of its peers, median over the steps: as in step_ratio, or where the trace states no stage, by the median of the job's ranks; NULL where compute is unknown" }
place = { type = "BIGINT", doc = "1 for the rank that caused the most waiting; ranks that caused as much share a place" }
verdict = { type = "VARCHAR", doc = "slow: last, costly, and its compute takes longer; late: last and costly, but not by its compute (its host, its data, or a delay carried from another stage); unremarkable; not_evaluable: too few steps" }

[params.min_steps]
default = 2
doc = "count; steps that give a verdict. Profilers record two to ten."
[params.min_last_ratio]
default = 0.5
doc = "ratio; who is last in fewer collectives is not it."
[params.min_caused_ratio]
default = 0.01
doc = "ratio of the steps: materiality, as in waiting_cost_day. HolisticTraceAnalysis has no such limit and names ranks on identical traces."
[params.min_compute_ratio]
default = 1.04
doc = "ratio; as min_ratio in step_straggler."
*/
WITH member AS (
    SELECT cluster, job_id, attempt, step, day_ts, last_rank, longest_wait_s,
        unnest(ranks) AS rank
    FROM collective_wait
),
arrival AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        count(*) AS collective_count,
        count(DISTINCT step) AS step_count,
        avg((last_rank IS NOT DISTINCT FROM rank)::INTEGER) AS last_ratio,
        coalesce(sum(round(longest_wait_s * 1e9)::BIGINT) FILTER (last_rank = rank), 0) / 1e9 AS caused_s
    FROM member
    GROUP BY ALL
),
present AS (
    SELECT s.cluster, s.job_id, s.attempt, s.rank, s.step, date_trunc('day', s.ts) AS day_ts,
        max(s.step_s) OVER same_step AS job_step_s,
        -- Ranks of several stages do different work: of a stage too small to compare nothing is known.
        if(
            bool_or(s.pp_stage IS NOT NULL) OVER same_step,
            r.ratio,
            s.compute_s / nullif(median(s.compute_s) OVER same_step, 0)
        ) AS compute_ratio
    FROM step_sample s
    LEFT JOIN step_ratio r USING (cluster, job_id, attempt, rank, step)
    WINDOW same_step AS (PARTITION BY s.cluster, s.job_id, s.attempt, day_ts, s.step)
),
rank_day AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        sum(round(job_step_s * 1e9)::BIGINT) / 1e9 AS length_s,
        median(compute_ratio) AS compute_ratio
    FROM present
    SEMI JOIN member USING (cluster, job_id, attempt, rank, step, day_ts)
    GROUP BY ALL
),
seen AS (
    SELECT cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, count(DISTINCT step) AS steps
    FROM step_sample
    GROUP BY ALL
),
judged AS (
    SELECT *, caused_s / nullif(length_s, 0) AS caused_ratio
    FROM arrival
    LEFT JOIN rank_day USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN seen USING (cluster, job_id, attempt, day_ts)
)
SELECT cluster, job_id, attempt, rank, day_ts, collective_count, step_count,
    step_count / steps AS coverage_ratio,
    last_ratio, caused_ratio, compute_ratio,
    rank() OVER (PARTITION BY cluster, job_id, attempt, day_ts ORDER BY caused_s DESC) AS place,
    CASE
        WHEN step_count < getvariable('min_steps') OR caused_ratio IS NULL THEN 'not_evaluable'
        WHEN last_ratio < getvariable('min_last_ratio') OR caused_ratio < getvariable('min_caused_ratio')
            THEN 'unremarkable'
        WHEN compute_ratio >= getvariable('min_compute_ratio') THEN 'slow'
        ELSE 'late'
    END AS verdict
FROM judged
