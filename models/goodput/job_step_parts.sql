/*
doc = "A training job's recorded steps as its ranks lived them, one row per step: what all of them share, and how long the slowest keeps the others waiting."
grain = ["cluster", "job_id", "attempt", "step"]
time = "ts"
sort = ["job_id", "ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job, as in step_sample" }
attempt = { type = "BIGINT", doc = "attempt, as in step_sample" }
step = { type = "BIGINT", doc = "training step" }
ts = { type = "TIMESTAMP", doc = "start of the step by the middle one of its ranks' clocks" }
rank_count = { type = "BIGINT", doc = "ranks with a record of the step", unit = "count" }
step_s = { type = "DOUBLE", doc = "length of the step: that of the longest rank; NULL where no rank states it", unit = "s" }
compute_s = { type = "DOUBLE", doc = "computing, median over the ranks", unit = "s" }
data_s = { type = "DOUBLE", doc = "waiting for input, median over the ranks: what all of them wait; one rank's own wait is in straggler_s", unit = "s" }
communication_s = { type = "DOUBLE", doc = "communication of the rank that spends least on it, since the others wait for the slowest in theirs", unit = "s" }
checkpoint_s = { type = "DOUBLE", doc = "blocked by writing a checkpoint, longest rank", unit = "s" }
straggler_s = { type = "DOUBLE", doc = "how much longer the slowest rank's own work took than that of its peers, if that is beyond noise_factor times what ranks wander by; 0 if no rank is; NULL where ranks could not be compared", unit = "s" }
straggler_rank = { type = "INTEGER", doc = "that rank" }
straggler_node = { type = "VARCHAR", doc = "node it ran on" }

[params.noise_factor]
default = 3
doc = "count of standard deviations (step_ratio.noise_ratio) beyond which a rank's step is slow and not just longer: among 64 healthy ranks one step in ten has such a rank, and it costs little more than the noise."
*/
WITH lagging AS (
    SELECT
        cluster, job_id, attempt, step, rank,
        if(
            ratio > 1 + getvariable('noise_factor') * coalesce(noise_ratio, 0),
            own_s - reference_s, 0
        ) AS lag_s
    FROM step_ratio
    WHERE ratio IS NOT NULL
),
slowest AS (
    SELECT
        cluster, job_id, attempt, step,
        max(lag_s) AS straggler_s,
        if(max(lag_s) > 0, arg_max(rank, (lag_s, -rank)), NULL) AS straggler_rank
    FROM lagging
    GROUP BY ALL
),
whole AS (
    SELECT
        cluster, job_id, attempt, step,
        quantile_disc(ts, 0.5) AS ts,
        count(*) AS rank_count,
        max(step_s) AS step_s,
        median(compute_s) AS compute_s,
        median(data_s) AS data_s,
        min(communication_s) AS communication_s,
        max(checkpoint_s) AS checkpoint_s
    FROM step_sample
    WHERE time_basis <> 'relative'
    GROUP BY ALL
)
SELECT
    w.cluster, w.job_id, w.attempt, w.step, w.ts, rank_count, w.step_s, w.compute_s, w.data_s,
    w.communication_s, w.checkpoint_s, straggler_s, straggler_rank, r.node AS straggler_node
FROM whole w
LEFT JOIN slowest s USING (cluster, job_id, attempt, step)
LEFT JOIN step_sample r
    ON r.cluster = w.cluster AND r.job_id = w.job_id AND r.attempt = w.attempt AND r.step = w.step
    AND r.rank = s.straggler_rank
