/*
doc = "Per rank and day: how much longer its compute takes than that of its peers, and the verdict. Peers are the other ranks of the same job and pipeline stage in the same step: they do the same work, so the job being slow, or a stage being heavy, accuses nobody. Where a stage has too few ranks, stages whose fastest ranks are equally fast count as one; where that does not help, a rank is compared with its own first steps of the day, relative to how the whole job changed since."
grain = ["cluster", "job_id", "attempt", "rank", "day_ts"]
time = "day_ts"
sort = ["job_id", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
rank = { type = "INTEGER", doc = "global rank" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
pp_stage = { type = "INTEGER", doc = "pipeline stage" }
node = { type = "VARCHAR", doc = "node the rank ran on" }
gpu_uuid = { type = "VARCHAR", doc = "GPU the rank ran on" }
start_ts = { type = "TIMESTAMP", doc = "start of its first step of the day" }
end_ts = { type = "TIMESTAMP", doc = "end of its last step of the day; its start where lengths are unknown" }
time_basis = { type = "VARCHAR", doc = "what times mean: step_sample.time_basis" }
basis = { type = "VARCHAR", doc = "what it was compared with: stage (ranks of its stage), stages (those of all stages that do the same work) or history (its own first steps of the day, and the job's ranks since); NULL where nothing could be compared" }
step_count = { type = "BIGINT", doc = "steps judged: compute and what to compare it with are known", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "steps judged of the job's steps seen that day", unit = "ratio" }
peer_count = { type = "BIGINT", doc = "fewest ranks that it was or could be compared with in a judged step; most in any step where none was judged", unit = "count" }
ratio = { type = "DOUBLE", doc = "median over the steps of compute_s by the median of the peers' compute_s: over the slow steps' span of a slow rank, else over all judged steps", unit = "ratio" }
ratio_lower = { type = "DOUBLE", doc = "lower bound of that median, 95 %: order statistic floor(n/2 - 0.98 sqrt n) of the n steps (sign test); NULL under 8 steps. Steps are not independent, so the true interval is wider", unit = "ratio" }
ratio_upper = { type = "DOUBLE", doc = "upper bound, order statistic ceil(1 + n/2 + 0.98 sqrt n)", unit = "ratio" }
noise_ratio = { type = "DOUBLE", doc = "how much the ratio of a rank of the stage wanders from step to step: standard deviation, from the median absolute difference of successive steps (1.0483 times it), mean over the judged steps", unit = "ratio" }
history_ratio = { type = "DOUBLE", doc = "second witness: ratio by the rank's own median before it became slow; NULL with fewer than 10 steps before, as for a rank that was slow all day", unit = "ratio" }
slow_step_ratio = { type = "DOUBLE", doc = "steps, of those that ratio is taken over, in which the rank was slower than min_step_ratio", unit = "ratio" }
slow_start_ts = { type = "TIMESTAMP", doc = "start of the first of the slow steps; NULL unless slow" }
slow_end_ts = { type = "TIMESTAMP", doc = "end of the last step at which the conditions held; NULL unless slow" }
lost_ratio = { type = "DOUBLE", doc = "compute beyond the peers' median in slow steps, of the length of all judged steps of the day; at most what the rank costs the job: part of it may hide in waiting, and two slow ranks of a job each show it", unit = "ratio" }
job_gpu_count = { type = "BIGINT", doc = "GPUs of the job as far as records show; all wait for the slow one", unit = "count" }
lost_gpu_s = { type = "DOUBLE", doc = "the same in GPU-seconds of the whole job", unit = "s" }
evidence_ts = { type = "TIMESTAMP", doc = "end of the step at which all conditions first held together, within the day; NULL unless slow" }
verdict = { type = "VARCHAR", doc = "slow, not_slow or not_evaluable" }
reason = { type = "VARCHAR", doc = "why not slow, or why not evaluable" }

[params.min_ratio]
default = 1.04
doc = "ratio; the median over the steps from which a rank is slow. Largest of a healthy rank on the public traces: 1.004 (AR, ST); of the slow one 2.357 (AR). SE's sequence lengths reach 1.059 and are stopped by min_noise_count."
[params.min_step_ratio]
default = 1.02
doc = "ratio; a step above it is slow. Half of min_ratio's excess, so that a rank at min_ratio is slow in most of its steps."
[params.min_slow_step_ratio]
default = 0.80
doc = "ratio; share of slow steps that makes a rank slow. A warm-up, a checkpoint or a straggler that moves around stays below."
[params.min_steps]
default = 20
doc = "count; steps that the conditions must hold over: the last so many, or all of the day so far. At 20 the interval of the median is the 5th to 16th step."
[params.min_noise_count]
default = 5
doc = "count; standard errors (1.2533 noise_ratio / sqrt n, that of a median of normal values) that the median must exceed 1 by. With 5, and 64 ranks judged at every step of a day, chance accuses nobody."
[params.warm_up_steps]
default = 50
doc = "count; slowness that has gone before so many steps of the day, and stayed away for half of min_steps, is a warm-up. The Mixtral run of Megatron's golden values takes 100 steps, of which it logs 20."
[params.min_lost_ratio]
default = 0.01
doc = "ratio; what is lost must exceed it. The public trace ST has a last arriver in every step that costs 0.1 ms of 2.2 s."
[params.same_work_ratio]
default = 1.015
doc = "ratio; stages of few ranks do the same work when the fastest ranks of one are at most so much slower than those of the next faster one. The three equal stages of public trace ST are 1.009 apart at most, its heavy one 1.61."
[params.min_peers]
default = 3
doc = "count; with one peer nobody knows which of the two is off, with two the median is a mean."
*/
WITH seen AS (
    SELECT *,
        date_trunc('day', ts) AS day_ts,
        compute_s > 0 AND pp_stage IS NOT NULL AS comparable
    FROM step_sample
),
floor_of_stage AS (
    SELECT cluster, job_id, attempt, day_ts, pp_stage, median(fastest_s) AS floor_s, max(ranks) AS ranks
    FROM (
        SELECT cluster, job_id, attempt, day_ts, step, pp_stage,
            min(compute_s) AS fastest_s, count(*) AS ranks
        FROM seen
        WHERE comparable
        GROUP BY ALL
    )
    GROUP BY ALL
),
-- Stages of few ranks, numbered from -1 down; a new number where the next one has more work.
work_of_stage AS (
    SELECT cluster, job_id, attempt, day_ts, pp_stage,
        if(ranks > getvariable('min_peers'), pp_stage, -sum(heavier) OVER job_day) AS work
    FROM (
        SELECT *,
            coalesce(floor_s > getvariable('same_work_ratio') * lag(floor_s) OVER (
                PARTITION BY cluster, job_id, attempt, day_ts, ranks > getvariable('min_peers')
                ORDER BY floor_s, pp_stage), true)::INTEGER AS heavier
        FROM floor_of_stage
    )
    WINDOW job_day AS (PARTITION BY cluster, job_id, attempt, day_ts, ranks > getvariable('min_peers')
                       ORDER BY floor_s, pp_stage)
),
ordered AS (
    SELECT *,
        count(*) OVER same_work AS ranks,
        row_number() OVER (same_work ORDER BY compute_s, rank) AS place,
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
        max(compute_s) FILTER (place = ranks // 2) AS low,
        max(compute_s) FILTER (place = ranks // 2 + 1) AS mid,
        max(compute_s) FILTER (place = ranks // 2 + 2) AS high
    FROM ordered
    GROUP BY ALL
),
-- Compute by that of the rank's own first steps, and how the whole job changed by this measure.
grown AS (
    SELECT cluster, job_id, attempt, day_ts, rank, step,
        if(number > getvariable('min_steps') AND job_ranks > getvariable('min_peers'),
           compute_s / median(compute_s) FILTER (number <= getvariable('min_steps')) OVER rank_day,
           NULL) AS growth
    FROM ordered
    WHERE ranks - 1 < getvariable('min_peers')
    WINDOW rank_day AS (PARTITION BY cluster, job_id, attempt, day_ts, rank)
),
job_growth AS (
    SELECT cluster, job_id, attempt, day_ts, step, median(growth) AS job_growth
    FROM grown
    GROUP BY ALL
    HAVING count(growth) > getvariable('min_peers')
),
job_step AS (
    SELECT cluster, job_id, attempt, day_ts, step,
        max(step_s) AS length_s,
        sum(coalesce(gpu_count, 1)) AS gpus
    FROM seen
    GROUP BY ALL
),
job_day AS (
    SELECT cluster, job_id, attempt, day_ts, count(*) AS steps, max(gpus) AS gpus
    FROM job_step
    GROUP BY ALL
),
compared AS (
    SELECT o.*, s.length_s,
        CASE
            WHEN ranks - 1 < getvariable('min_peers') THEN compute_s * job_growth / growth
            WHEN ranks % 2 = 0 THEN if(place > ranks // 2, low, mid)
            ELSE (if(place > ranks // 2, low, mid) + if(place > ranks // 2 + 1, mid, high)) / 2
        END AS reference_s
    FROM ordered o
    JOIN middle USING (cluster, job_id, attempt, day_ts, step, work)
    JOIN job_step s USING (cluster, job_id, attempt, day_ts, step)
    LEFT JOIN grown USING (cluster, job_id, attempt, day_ts, rank, step)
    LEFT JOIN job_growth USING (cluster, job_id, attempt, day_ts, step)
),
stepped AS (
    SELECT *,
        compute_s / reference_s AS step_ratio,
        abs(step_ratio - lag(step_ratio) OVER rank_day) AS jump,
        step_ratio > getvariable('min_step_ratio') AS slow,
        if(slow, least(compute_s - reference_s, length_s), 0) AS lost_s
    FROM compared
    WHERE reference_s IS NOT NULL
    WINDOW rank_day AS (PARTITION BY cluster, job_id, attempt, day_ts, rank ORDER BY ts, step)
),
judged AS (
    SELECT *,
        -- Sums of whole nanoseconds do not depend on the order of rows.
        round(lost_s * 1e9)::BIGINT AS lost_ns,
        round(length_s * 1e9)::BIGINT AS length_ns,
        round(1.0483e9 * median(jump) OVER (
            PARTITION BY cluster, job_id, attempt, day_ts, step, work))::BIGINT AS noise_e9
    FROM stepped
),
-- The conditions as they stood after each step: over the last steps, and over all so far.
running AS (
    SELECT cluster, job_id, attempt, rank, day_ts, ts, step, slow, step_ratio,
        least(ts + to_microseconds(coalesce(round(step_s * 1e6)::BIGINT, 0)),
              day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS end_ts,
        count(*) OVER so_far AS steps,
        first_value(ts) OVER latest AS latest_ts,
        steps >= getvariable('min_steps')
            AND avg(slow::INTEGER) OVER latest >= getvariable('min_slow_step_ratio')
            AND median(step_ratio) OVER latest
                >= greatest(getvariable('min_ratio'), 1 + getvariable('min_noise_count')
                    * 1.2533e-9 * coalesce(avg(noise_e9) OVER latest, 0) / sqrt(count(*) OVER latest))
            AS slow_lately,
        sum(lost_ns) OVER latest > getvariable('min_lost_ratio') * sum(length_ns) OVER latest
            AS costly_lately,
        steps >= getvariable('min_steps')
            AND avg(slow::INTEGER) OVER so_far >= getvariable('min_slow_step_ratio')
            AND median(step_ratio) OVER so_far
                >= greatest(getvariable('min_ratio'), 1 + getvariable('min_noise_count')
                    * 1.2533e-9 * coalesce(avg(noise_e9) OVER so_far, 0) / sqrt(steps))
            AS slow_so_far,
        sum(lost_ns) OVER so_far > getvariable('min_lost_ratio') * sum(length_ns) OVER so_far
            AS costly_so_far
    FROM judged
    WINDOW so_far AS (PARTITION BY cluster, job_id, attempt, rank, day_ts ORDER BY ts, step
                      ROWS UNBOUNDED PRECEDING),
        latest AS (PARTITION BY cluster, job_id, attempt, rank, day_ts ORDER BY ts, step
                   ROWS (getvariable('min_steps') - 1) PRECEDING)
),
evidence AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        bool_or(slow_lately OR slow_so_far) AS ever_slow,
        min(end_ts) FILTER (sufficient) AS evidence_ts,
        min(if(slow_so_far, first_ts, latest_ts)) FILTER (sufficient) AS from_ts,
        max(ts) FILTER (sufficient) AS until_ts,
        max(end_ts) FILTER (sufficient) AS slow_end_ts,
        max(steps) FILTER (sufficient) AS until_steps,
        max(steps) AS all_steps
    FROM (
        SELECT *, min(ts) OVER (PARTITION BY cluster, job_id, attempt, rank, day_ts) AS first_ts,
            coalesce(slow_lately AND costly_lately OR slow_so_far AND costly_so_far, false) AS sufficient
        FROM running
    )
    GROUP BY ALL
),
-- Others of the job whose slowness came before or after: two of them, and it moves around.
moving AS (
    SELECT a.cluster, a.job_id, a.attempt, a.rank, a.day_ts, count(*) AS others
    FROM evidence a
    JOIN evidence b ON (a.cluster, a.job_id, a.attempt, a.day_ts) = (b.cluster, b.job_id, b.attempt, b.day_ts)
        AND (b.until_ts <= a.from_ts OR b.from_ts >= a.until_ts)
    GROUP BY ALL
),
measured AS (
    SELECT j.cluster, j.job_id, j.attempt, j.rank, j.day_ts,
        count(*) AS step_count,
        min(ranks) - 1 AS peer_count,
        list_sort(list(step_ratio) FILTER (coalesce(j.ts BETWEEN from_ts AND until_ts, true))) AS ratios,
        avg(slow::INTEGER) FILTER (coalesce(j.ts BETWEEN from_ts AND until_ts, true)) AS slow_step_ratio,
        min(j.ts) FILTER (slow AND j.ts BETWEEN from_ts AND until_ts) AS slow_start_ts,
        median(step_ratio) FILTER (j.ts < from_ts) AS before,
        count(*) FILTER (j.ts < from_ts) AS steps_before,
        avg(noise_e9) / 1e9 AS noise_ratio,
        sum(lost_ns) / 1e9 AS lost_s,
        sum(length_ns) / 1e9 AS length_s
    FROM judged j
    JOIN evidence USING (cluster, job_id, attempt, rank, day_ts)
    GROUP BY ALL
),
rank_day AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        min(pp_stage) AS pp_stage, min(node) AS node, min(gpu_uuid) AS gpu_uuid,
        min(ts) AS start_ts,
        max(ts + to_microseconds(coalesce(round(step_s * 1e6)::BIGINT, 0))) AS end_ts,
        min(time_basis) AS time_basis,
        bool_or(compute_s > 0) AS has_compute, bool_or(comparable) AS has_comparable
    FROM seen
    GROUP BY ALL
),
most_peers AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        max(ranks) - 1 AS most_peers, max(job_ranks) - 1 AS most_ranks, bool_or(work < 0) AS widened
    FROM ordered
    GROUP BY ALL
),
judgement AS (
    SELECT *,
        lost_s / nullif(length_s, 0) AS lost_ratio,
        CASE
            WHEN has_compute IS NOT TRUE THEN 'compute time unknown'
            WHEN has_comparable IS NOT TRUE THEN 'pipeline stage unknown'
            WHEN most_ranks < getvariable('min_peers')
                THEN format('fewer than {} peers in its job', getvariable('min_peers'))
            WHEN coalesce(step_count, 0) < getvariable('min_steps') AND most_peers < getvariable('min_peers')
                THEN format('fewer than {} peers in its stage, and fewer than {} steps after its first {}',
                    getvariable('min_peers'), getvariable('min_steps'), getvariable('min_steps'))
            WHEN coalesce(step_count, 0) < getvariable('min_steps')
                THEN format('fewer than {} steps', getvariable('min_steps'))
            WHEN length_s IS NULL THEN 'step length unknown'
        END AS obstacle,
        CASE
            WHEN evidence_ts IS NULL AND ever_slow THEN 'slow, but too little is lost'
            WHEN evidence_ts IS NULL THEN 'slow in few steps or in none'
            WHEN until_steps <= getvariable('warm_up_steps')
                AND all_steps >= until_steps + getvariable('min_steps') / 2 THEN 'slow only while it warmed up'
            WHEN others >= 2 THEN 'slow in turn with other ranks'
        END AS excuse,
        obstacle IS NULL AND excuse IS NULL AS accused
    FROM rank_day r
    JOIN job_day d USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN measured m USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN evidence USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN moving USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN most_peers USING (cluster, job_id, attempt, rank, day_ts)
)
SELECT cluster, job_id, attempt, rank, day_ts, pp_stage, node, gpu_uuid, start_ts, end_ts, time_basis,
    CASE
        WHEN step_count IS NULL THEN NULL
        WHEN most_peers < getvariable('min_peers') THEN 'history'
        WHEN widened THEN 'stages'
        ELSE 'stage'
    END AS basis,
    coalesce(step_count, 0) AS step_count,
    coalesce(step_count, 0) / steps AS coverage_ratio,
    coalesce(peer_count, most_peers, 0) AS peer_count,
    list_median(ratios) AS ratio,
    if(len(ratios) >= 8, ratios[floor(len(ratios) / 2 - 0.98 * sqrt(len(ratios)))::INTEGER], NULL)
        AS ratio_lower,
    if(len(ratios) >= 8, ratios[ceil(1 + len(ratios) / 2 + 0.98 * sqrt(len(ratios)))::INTEGER], NULL)
        AS ratio_upper,
    noise_ratio,
    if(accused AND steps_before >= 10, list_median(ratios) / before, NULL) AS history_ratio,
    slow_step_ratio,
    if(accused, slow_start_ts, NULL) AS slow_start_ts,
    if(accused, slow_end_ts, NULL) AS slow_end_ts,
    lost_ratio,
    gpus::BIGINT AS job_gpu_count,
    lost_s * gpus AS lost_gpu_s,
    if(accused, evidence_ts, NULL) AS evidence_ts,
    CASE
        WHEN obstacle IS NOT NULL THEN 'not_evaluable'
        WHEN excuse IS NOT NULL THEN 'not_slow'
        ELSE 'slow'
    END AS verdict,
    coalesce(obstacle, excuse) AS reason
FROM judgement
