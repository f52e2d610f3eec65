/*
doc = """
Jobs that are slower while they share a node, per attempt, day and neighbour: the median step while the neighbour's attempt was on one of its nodes by the median step while nobody was. Steps are those of the
job's own log (train_step); of jobs without one nothing is said. The same job is its own measure; single slow steps do not move the median. A slow step
while somebody was there does not prove that he was the cause: what repeats beside the same neighbour over several jobs (neighbour_job_count) is stronger.
Only on days with enough steps of both kinds; an attempt that never shared a node, or always, has no row.
"""
grain = ["cluster", "job_id", "attempt", "day_ts", "neighbour_job_id"]
time = "day_ts"
sort = ["cluster", "day_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id of the job that is slower" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
neighbour_job_id = { type = "VARCHAR", doc = "the job that shared a node" }
neighbour_principal = { type = "VARCHAR", doc = "its user" }
shared_node_count = { type = "BIGINT", doc = "nodes on which both were", unit = "count" }
alone_step_count = { type = "BIGINT", doc = "steps while nobody shared a node", unit = "count" }
shared_step_count = { type = "BIGINT", doc = "steps while this neighbour did", unit = "count" }
alone_step_s = { type = "DOUBLE", doc = "median of the former", unit = "s" }
shared_step_s = { type = "DOUBLE", doc = "median of the latter", unit = "s" }
slowdown_ratio = { type = "DOUBLE", doc = "shared by alone", unit = "ratio" }
lost_s = { type = "DOUBLE", doc = "shared_step_count x (shared - alone): time lost, below 0 where it was faster", unit = "s" }
neighbour_job_count = { type = "BIGINT", doc = "jobs that were slower by at least slow_ratio beside the same neighbour on the day", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "share of the attempt's steps of the day that are in either kind", unit = "ratio" }

[params.min_steps]
default = 20
doc = "count; steps of each kind that a median needs"

[params.slow_ratio]
default = 1.05
doc = "ratio; slower by 5 %: above what steps of one job scatter, see step_straggler"
*/
WITH step AS (
    SELECT cluster, job_id, attempt, ts, step_s FROM train_step WHERE time_basis = 'absolute' AND step_s > 0
),
beside AS (
    SELECT
        a.cluster, a.job_id, a.attempt, b.job_id AS neighbour_job_id,
        any_value(b.principal) AS neighbour_principal,
        count(DISTINCT a.node) AS shared_node_count,
        greatest(a.start_ts, b.start_ts) AS from_ts,
        least(coalesce(a.end_ts, a.observed_ts), coalesce(b.end_ts, b.observed_ts)) AS to_ts
    FROM gpu_allocation AS a
    JOIN gpu_allocation AS b
        ON b.cluster = a.cluster AND b.node = a.node AND b.job_id <> a.job_id
        AND b.start_ts < coalesce(a.end_ts, a.observed_ts) AND coalesce(b.end_ts, b.observed_ts) > a.start_ts
    SEMI JOIN step AS s ON s.cluster = a.cluster AND s.job_id = a.job_id AND s.attempt = a.attempt
    GROUP BY a.cluster, a.job_id, a.attempt, b.job_id, b.attempt, a.start_ts, a.end_ts, a.observed_ts, b.start_ts, b.end_ts, b.observed_ts
),
-- A step is alone if no neighbour of any name was there from its start to its end.
told AS (
    SELECT
        s.cluster, s.job_id, s.attempt, s.ts, s.step_s,
        date_trunc('day', s.ts)::TIMESTAMP AS day_ts,
        list(DISTINCT b.neighbour_job_id) FILTER (b.neighbour_job_id IS NOT NULL) AS neighbours
    FROM step AS s
    LEFT JOIN beside AS b
        ON b.cluster = s.cluster AND b.job_id = s.job_id AND b.attempt = s.attempt
        AND b.from_ts < s.ts + to_seconds(s.step_s) AND b.to_ts > s.ts
    GROUP BY ALL
),
alone AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        count(*) AS step_count,
        count(*) FILTER (neighbours IS NULL) AS alone_count,
        quantile_cont(step_s, 0.5) FILTER (neighbours IS NULL) AS alone_s
    FROM told
    GROUP BY ALL
),
shared AS (
    SELECT cluster, job_id, attempt, day_ts, neighbour_job_id, count(*) AS shared_count, quantile_cont(step_s, 0.5) AS shared_s
    FROM (SELECT * EXCLUDE (neighbours), unnest(neighbours) AS neighbour_job_id FROM told)
    GROUP BY ALL
),
who AS (
    SELECT cluster, job_id, attempt, neighbour_job_id, any_value(neighbour_principal) AS principal, max(shared_node_count) AS nodes
    FROM beside
    GROUP BY ALL
),
pair AS (
    SELECT s.*, a.step_count, a.alone_count, a.alone_s, w.principal, w.nodes, s.shared_s / a.alone_s AS slowdown
    FROM shared AS s
    JOIN alone AS a USING (cluster, job_id, attempt, day_ts)
    JOIN who AS w USING (cluster, job_id, attempt, neighbour_job_id)
    WHERE s.shared_count >= getvariable('min_steps') AND a.alone_count >= getvariable('min_steps')
)
SELECT
    cluster, job_id, attempt, day_ts, neighbour_job_id,
    principal AS neighbour_principal,
    nodes AS shared_node_count,
    alone_count AS alone_step_count,
    shared_count AS shared_step_count,
    alone_s AS alone_step_s,
    shared_s AS shared_step_s,
    slowdown AS slowdown_ratio,
    shared_count * (shared_s - alone_s) AS lost_s,
    count(*) FILTER (slowdown >= getvariable('slow_ratio')) OVER (PARTITION BY cluster, neighbour_job_id, day_ts) AS neighbour_job_count,
    (alone_count + shared_count) / step_count::DOUBLE AS coverage_ratio
FROM pair
