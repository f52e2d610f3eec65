/*
doc = "Per rank and step: how much longer its own work took than that of its peers, the other ranks of the same job and pipeline stage in the same step. Where a stage has too few ranks, stages whose fastest ranks are equally fast count as one; where that does not help, a rank is compared with its own first steps of the day, relative to how the whole job changed since."
grain = ["cluster", "job_id", "attempt", "rank", "step"]
time = "ts"
sort = ["job_id", "rank", "ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
rank = { type = "INTEGER", doc = "global rank" }
step = { type = "BIGINT", doc = "training step" }
ts = { type = "TIMESTAMP", doc = "start of the step" }
end_ts = { type = "TIMESTAMP", doc = "end of this rank's last part of it; its start where the length is unknown" }
pp_stage = { type = "INTEGER", doc = "pipeline stage" }
basis = { type = "VARCHAR", doc = "what it was compared with: stage (ranks of its stage), stages (those of all stages that do the same work) or history (its own first steps of the day, and the job's ranks since); NULL where nothing could be compared" }
peer_count = { type = "BIGINT", doc = "other ranks in its stage, or in the stages that do the same work; NULL where compute or stage is unknown", unit = "count" }
own_s = { type = "DOUBLE", doc = "what the rank takes before it waits for others: compute, and waiting for its own input where that was recorded beside compute and not as part of it", unit = "s" }
reference_s = { type = "DOUBLE", doc = "what it would be if the rank were like its peers: their median", unit = "s" }
ratio = { type = "DOUBLE", doc = "own_s / reference_s", unit = "ratio" }
noise_ratio = { type = "DOUBLE", doc = "how much the ratios of these ranks wander: standard deviation, 1.0483 times the median absolute difference from the step before", unit = "ratio" }
job_step_s = { type = "DOUBLE", doc = "length of the step: that of the job's longest rank", unit = "s" }
load_ratio = { type = "DOUBLE", doc = "how much more compute its share of the data may explain: tokens, or the square of seq_len (attention grows so), by the median of the same ranks, whichever is more; NULL where neither was recorded", unit = "ratio" }
obstacle = { type = "VARCHAR", doc = "why it could not be compared" }

[params.min_peers]
default = 3
doc = "count; with one peer nobody knows which of the two is off, with two the median is a mean."
[params.baseline_steps]
default = 20
doc = "count; a rank's first steps of the day that it is compared with on basis history."
[params.same_work_ratio]
default = 1.015
doc = "ratio; stages of few ranks do the same work when the fastest ranks of one are at most so much slower than those of the next faster one. The three equal stages of public trace ST are 1.009 apart at most, its heavy one 1.61."
*/
WITH dated AS (
    SELECT *,
        date_trunc('day', ts) AS day_ts,
        compute_s + data_s + coalesce(communication_s, 0) + coalesce(optimizer_s, 0)
            + coalesce(checkpoint_s, 0) + coalesce(other_s, 0) AS parts_s
    FROM step_sample
),
seen AS (
    SELECT *,
        -- Timers nest: where the parts exceed the step, waiting for input was counted as compute already.
        -- How timers nest is the same for all ranks of a step; rank by rank, jitter would decide it.
        compute_s + if(
            sum(round((parts_s - step_s) * 1e9)::BIGINT) OVER job_step
                <= 0.5 * sum(round(data_s * 1e9)::BIGINT) FILTER (parts_s - step_s IS NOT NULL) OVER job_step,
            coalesce(data_s, 0), 0
        ) AS own_s,
        own_s > 0 AND pp_stage IS NOT NULL AS comparable
    FROM dated
    WINDOW job_step AS (PARTITION BY cluster, job_id, attempt, day_ts, step)
),
floor_of_stage AS (
    SELECT cluster, job_id, attempt, day_ts, pp_stage,
        median(fastest_s) AS floor_s, max(ranks) > getvariable('min_peers') AS enough
    FROM (
        SELECT cluster, job_id, attempt, day_ts, step, pp_stage,
            min(own_s) AS fastest_s, count(*) AS ranks
        FROM seen
        WHERE comparable
        GROUP BY ALL
    )
    GROUP BY ALL
),
-- Stages of few ranks are numbered from -1 down; a new number where the next one has more work.
work_of_stage AS (
    SELECT cluster, job_id, attempt, day_ts, pp_stage,
        if(enough, pp_stage, -sum(heavier) OVER by_floor) AS work
    FROM (
        SELECT *,
            coalesce(floor_s > getvariable('same_work_ratio') * lag(floor_s) OVER by_floor, true)::INTEGER
                AS heavier
        FROM floor_of_stage
        WINDOW by_floor AS (PARTITION BY cluster, job_id, attempt, day_ts, enough ORDER BY floor_s, pp_stage)
    )
    WINDOW by_floor AS (PARTITION BY cluster, job_id, attempt, day_ts, enough ORDER BY floor_s, pp_stage)
),
ordered AS (
    SELECT *,
        count(*) OVER same_work AS ranks,
        row_number() OVER (same_work ORDER BY own_s, rank) AS place,
        greatest(
            tokens / nullif(median(tokens) OVER same_work, 0),
            pow(seq_len / nullif(median(seq_len) OVER same_work, 0), 2)
        ) AS load_ratio,
        count(*) OVER same_step AS job_ranks,
        row_number() OVER rank_day AS number
    FROM seen
    JOIN work_of_stage USING (cluster, job_id, attempt, day_ts, pp_stage)
    WHERE comparable
    WINDOW same_work AS (PARTITION BY cluster, job_id, attempt, day_ts, step, work),
        same_step AS (PARTITION BY cluster, job_id, attempt, day_ts, step),
        rank_day AS (PARTITION BY cluster, job_id, attempt, day_ts, rank ORDER BY ts, step)
),
-- The three values around the middle give the median of the others for every rank of the group.
middle AS (
    SELECT cluster, job_id, attempt, day_ts, step, work,
        max(own_s) FILTER (place = ranks // 2) AS low,
        max(own_s) FILTER (place = ranks // 2 + 1) AS mid,
        max(own_s) FILTER (place = ranks // 2 + 2) AS high
    FROM ordered
    GROUP BY ALL
),
-- Compute by that of the rank's own first steps, and how the whole job changed by this measure.
grown AS (
    SELECT cluster, job_id, attempt, day_ts, rank, step,
        if(number > getvariable('baseline_steps'),
           own_s / median(own_s) FILTER (number <= getvariable('baseline_steps')) OVER rank_day,
           NULL) AS growth
    FROM ordered
    SEMI JOIN (FROM ordered WHERE ranks - 1 < getvariable('min_peers') AND job_ranks > getvariable('min_peers'))
        USING (cluster, job_id, attempt, day_ts)
    WINDOW rank_day AS (PARTITION BY cluster, job_id, attempt, day_ts, rank)
),
job_growth AS (
    SELECT cluster, job_id, attempt, day_ts, step, median(growth) AS job_growth
    FROM grown
    GROUP BY ALL
    HAVING count(growth) > getvariable('min_peers')
),
compared AS (
    SELECT o.*,
        ranks - 1 < getvariable('min_peers') AS alone,
        CASE
            WHEN alone THEN own_s * job_growth / growth
            WHEN ranks % 2 = 0 THEN if(place > ranks // 2, low, mid)
            ELSE (if(place > ranks // 2, low, mid) + if(place > ranks // 2 + 1, mid, high)) / 2
        END AS reference_s,
        own_s / reference_s AS ratio
    FROM ordered o
    JOIN middle USING (cluster, job_id, attempt, day_ts, step, work)
    LEFT JOIN grown USING (cluster, job_id, attempt, day_ts, rank, step)
    LEFT JOIN job_growth USING (cluster, job_id, attempt, day_ts, step)
),
jumped AS (
    SELECT *,
        abs(ratio - lag(ratio) OVER (
            PARTITION BY cluster, job_id, attempt, day_ts, rank ORDER BY ts, step)) AS jump
    FROM compared
),
job_step AS (
    SELECT cluster, job_id, attempt, day_ts, step, max(step_s) AS job_step_s
    FROM seen
    GROUP BY ALL
)
SELECT s.cluster, s.job_id, s.attempt, s.rank, s.step, s.ts,
    s.ts + to_microseconds(coalesce(round(s.step_s * 1e6)::BIGINT, 0)) AS end_ts,
    s.pp_stage,
    CASE WHEN reference_s IS NULL THEN NULL WHEN alone THEN 'history' WHEN work < 0 THEN 'stages' ELSE 'stage' END
        AS basis,
    ranks - 1 AS peer_count,
    s.own_s, reference_s, ratio,
    1.0483 * median(jump) OVER (PARTITION BY s.cluster, s.job_id, s.attempt, s.day_ts, s.step, work)
        AS noise_ratio,
    job_step_s,
    if(reference_s IS NULL, NULL, load_ratio) AS load_ratio,
    CASE
        WHEN reference_s IS NOT NULL THEN NULL
        WHEN NOT coalesce(s.own_s > 0, false) THEN 'compute time unknown'
        WHEN s.pp_stage IS NULL THEN 'pipeline stage unknown'
        WHEN job_ranks <= getvariable('min_peers')
            THEN format('fewer than {} peers in its job', getvariable('min_peers'))
        ELSE format('fewer than {} peers in its stage, and its own first steps are all there is',
            getvariable('min_peers'))
    END AS obstacle
FROM seen s
LEFT JOIN jumped j USING (cluster, job_id, attempt, day_ts, rank, step)
LEFT JOIN job_step USING (cluster, job_id, attempt, day_ts, step)
