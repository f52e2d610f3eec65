/*
doc = "Per rank and step: how much longer its own work took than that of its peers, the other ranks of the same job and pipeline stage in the same step. Where a stage has too few ranks, stages of two or three ranks count as one, each by its fastest rank, as do stages of one rank that are equally fast; where that does not help, a rank is compared with its own first steps of the day, relative to how the whole job changed since."
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
load_basis = { type = "VARCHAR", doc = "where the job's batches are uneven that day: how the load of a step was taken out of even_ratio, by the ranks' own records (recorded) or by what the step took the other ranks of the same data-parallel replica, which have the same batch (replica); NULL where batches are even, or neither makes ratios wander less" }
even_ratio = { type = "DOUBLE", doc = "ratio without the load of the step: by load_ratio to the power that fits the job's day best (0 to 2), or by the median ratio of the other ranks of its replica; what slows most of a replica is taken out with it. NULL without load_basis", unit = "ratio" }
even_noise_ratio = { type = "DOUBLE", doc = "how much even_ratio wanders, as noise_ratio, over all ranks of the job", unit = "ratio" }
obstacle = { type = "VARCHAR", doc = "why it could not be compared" }

[params.min_peers]
default = 3
doc = "count; with one peer nobody knows which of the two is off, with two the median is a mean."
[params.baseline_steps]
default = 20
doc = "count; a rank's first steps of the day that it is compared with on basis history."
[params.same_work_ratio]
default = 1.015
doc = "ratio; stages of one rank do the same work when the rank of one is at most so much slower than that of the next faster one. The three equal stages of public trace ST are 1.009 apart at most, its heavy one 1.61."
[params.min_uneven_ratio]
default = 0.02
doc = "ratio; a job whose ratios wander more in the day's median has uneven batches, if load explains it. Healthy ranks of the public traces AR and ST wander by up to 0.5 %, those of SE (sequence lengths) by 20 %."
[params.max_even_noise_ratio]
default = 0.7
doc = "ratio; load explains it if what is left wanders at most so much of it. A replica of unrelated ranks would add noise: 1.4 times."
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
        median(fastest_s) AS floor_s, max(ranks) > getvariable('min_peers') AS enough, min(ranks) > 1 AS shared
    FROM (
        SELECT cluster, job_id, attempt, day_ts, step, pp_stage,
            min(own_s) AS fastest_s, count(*) AS ranks
        FROM seen
        WHERE comparable
        GROUP BY ALL
    )
    GROUP BY ALL
),
-- Stages of few ranks are numbered from -1 down; a new number where the next one has more work. Stages of two or
-- three make one group: the faster of two says how much work its stage has.
work_of_stage AS (
    SELECT cluster, job_id, attempt, day_ts, pp_stage,
        if(enough, pp_stage, -sum(heavier) OVER by_floor) AS work,
        if(shared AND NOT enough, floor_s, 1) AS level_s
    FROM (
        SELECT *,
            coalesce(if(shared, NOT lag(shared) OVER by_floor, floor_s > getvariable('same_work_ratio') * lag(floor_s) OVER by_floor), true)
                ::INTEGER AS heavier
        FROM floor_of_stage
        WINDOW by_floor AS (PARTITION BY cluster, job_id, attempt, day_ts, enough ORDER BY shared, floor_s, pp_stage)
    )
    WINDOW by_floor AS (PARTITION BY cluster, job_id, attempt, day_ts, enough ORDER BY shared, floor_s, pp_stage)
),
ordered AS (
    SELECT *,
        count(*) OVER same_work AS ranks,
        row_number() OVER (same_work ORDER BY own_s / level_s, rank) AS place,
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
        max(own_s / level_s) FILTER (place = ranks // 2) AS low,
        max(own_s / level_s) FILTER (place = ranks // 2 + 1) AS mid,
        max(own_s / level_s) FILTER (place = ranks // 2 + 2) AS high
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
            WHEN ranks % 2 = 0 THEN level_s * if(place > ranks // 2, low, mid)
            ELSE level_s * (if(place > ranks // 2, low, mid) + if(place > ranks // 2 + 1, mid, high)) / 2
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
uneven AS (
    SELECT cluster, job_id, attempt, day_ts,
        1.0483 * median(jump) AS noise_ratio,
        -- Rounded so that the order of addition never shows.
        round(least(greatest(regr_slope(ln(ratio), ln(nullif(load_ratio, 0))), 0), 2), 3) AS power
    FROM jumped
    WHERE ratio IS NOT NULL
    GROUP BY ALL
    HAVING 1.0483 * median(jump) > getvariable('min_uneven_ratio')
),
replica AS (
    SELECT cluster, job_id, attempt, day_ts, step, dp_rank, list_sort(list(ratio)) AS ratios
    FROM jumped
    SEMI JOIN uneven USING (cluster, job_id, attempt, day_ts)
    WHERE ratio IS NOT NULL AND dp_rank IS NOT NULL
    GROUP BY ALL
    HAVING count(*) > 1
),
evened AS (
    SELECT j.cluster, j.job_id, j.attempt, j.day_ts, j.rank, j.step, ts,
        list_position(ratios, ratio) AS own_place,
        ratio / list_median(ratios[:own_place - 1] || ratios[own_place + 1:]) AS by_replica,
        if(load_ratio > 0, ratio / pow(load_ratio, power), NULL) AS by_record
    FROM jumped j
    JOIN uneven USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN replica USING (cluster, job_id, attempt, day_ts, step, dp_rank)
    WHERE ratio IS NOT NULL AND NOT alone
),
shaken AS (
    SELECT *,
        abs(by_replica - lag(by_replica) OVER of_rank) AS replica_jump,
        abs(by_record - lag(by_record) OVER of_rank) AS record_jump
    FROM evened
    WINDOW of_rank AS (PARTITION BY cluster, job_id, attempt, day_ts, rank ORDER BY ts, step)
),
explained AS (
    SELECT cluster, job_id, attempt, day_ts, if(record_noise <= replica_noise IS NOT FALSE
        AND record_noise IS NOT NULL, 'recorded', 'replica') AS load_basis
    FROM (
        SELECT cluster, job_id, attempt, day_ts,
            1.0483 * median(record_jump) AS record_noise, 1.0483 * median(replica_jump) AS replica_noise
        FROM shaken
        GROUP BY ALL
    )
    JOIN uneven USING (cluster, job_id, attempt, day_ts)
    WHERE least(record_noise, replica_noise) <= getvariable('max_even_noise_ratio') * noise_ratio
),
even AS (
    SELECT s.cluster, s.job_id, s.attempt, s.day_ts, s.rank, s.step, load_basis,
        if(load_basis = 'recorded', s.by_record, s.by_replica) AS even_ratio,
        1.0483 * median(if(load_basis = 'recorded', record_jump, replica_jump)) OVER (
            PARTITION BY s.cluster, s.job_id, s.attempt, s.day_ts, s.step) AS even_noise_ratio
    FROM shaken s
    JOIN explained USING (cluster, job_id, attempt, day_ts)
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
    if(even_ratio IS NULL, NULL, load_basis) AS load_basis, even_ratio, even_noise_ratio,
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
LEFT JOIN even USING (cluster, job_id, attempt, day_ts, rank, step)
