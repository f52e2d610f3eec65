/*
doc = "Per rank and day: how much longer its compute takes than that of its peers, and the verdict. Peers are the other ranks of the same job and pipeline stage in the same step: they do the same work, so the job being slow, or a stage being heavy, accuses nobody."
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
step_count = { type = "BIGINT", doc = "steps judged: compute known and enough peers", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "steps judged of the job's steps seen that day", unit = "ratio" }
peer_count = { type = "BIGINT", doc = "fewest peers in a judged step; most in any step where none was judged", unit = "count" }
ratio = { type = "DOUBLE", doc = "median over the judged steps of compute_s by the median of the peers' compute_s", unit = "ratio" }
ratio_lower = { type = "DOUBLE", doc = "lower bound of that median, 95 %: order statistic floor(n/2 - 0.98 sqrt n) of the n steps (sign test); NULL under 8 steps. Steps are not independent, so the true interval is wider", unit = "ratio" }
ratio_upper = { type = "DOUBLE", doc = "upper bound, order statistic ceil(1 + n/2 + 0.98 sqrt n)", unit = "ratio" }
slow_step_ratio = { type = "DOUBLE", doc = "judged steps in which the rank was slower than min_ratio", unit = "ratio" }
lost_ratio = { type = "DOUBLE", doc = "compute beyond the peers' median in slow steps, of the length of all judged steps; at most what the rank costs the job: part of it may hide in waiting, and two slow ranks of a job each show it", unit = "ratio" }
job_gpu_count = { type = "BIGINT", doc = "GPUs of the job as far as records show; all wait for the slow one", unit = "count" }
lost_gpu_s = { type = "DOUBLE", doc = "the same in GPU-seconds of the whole job", unit = "s" }
evidence_ts = { type = "TIMESTAMP", doc = "end of the step at which all conditions first held together, within the day; NULL unless slow" }
verdict = { type = "VARCHAR", doc = "slow, not_slow or not_evaluable" }
reason = { type = "VARCHAR", doc = "why not slow, or why not evaluable" }

[params.min_ratio]
default = 1.10
doc = "ratio; a step above it is slow. Largest ratio of a healthy rank on the public traces: 1.008 (ST) and 1.059 (SE); of the slow one 2.357 (AR)."
[params.min_slow_step_ratio]
default = 0.80
doc = "ratio; share of slow steps that makes a rank slow. A warm-up, a checkpoint or a straggler that moves around stays below."
[params.min_steps]
default = 20
doc = "count; fewer judged steps give no verdict. At 20 the interval of the median is the 5th to 16th step."
[params.min_lost_ratio]
default = 0.01
doc = "ratio; what is lost must exceed it. The public trace ST has a last arriver in every step that costs 0.1 ms of 2.2 s."
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
ordered AS (
    SELECT *,
        count(*) OVER same_work AS ranks,
        row_number() OVER (same_work ORDER BY compute_s, rank) AS place
    FROM seen
    WHERE comparable
    WINDOW same_work AS (PARTITION BY cluster, job_id, attempt, day_ts, step, pp_stage)
),
-- The three values around the middle give the median of the others for every rank of the group.
middle AS (
    SELECT cluster, job_id, attempt, day_ts, step, pp_stage,
        max(compute_s) FILTER (place = ranks // 2) AS low,
        max(compute_s) FILTER (place = ranks // 2 + 1) AS mid,
        max(compute_s) FILTER (place = ranks // 2 + 2) AS high
    FROM ordered
    GROUP BY ALL
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
            WHEN ranks - 1 < getvariable('min_peers') THEN NULL
            WHEN ranks % 2 = 0 THEN if(place > ranks // 2, low, mid)
            ELSE (if(place > ranks // 2, low, mid) + if(place > ranks // 2 + 1, mid, high)) / 2
        END AS reference_s
    FROM ordered o
    JOIN middle USING (cluster, job_id, attempt, day_ts, step, pp_stage)
    JOIN job_step s USING (cluster, job_id, attempt, day_ts, step)
),
judged AS (
    SELECT *,
        compute_s / reference_s AS step_ratio,
        step_ratio > getvariable('min_ratio') AS slow,
        if(slow, least(compute_s - reference_s, length_s), 0) AS lost_s
    FROM compared
    WHERE reference_s IS NOT NULL
),
-- The conditions as they stood after each step, for the time at which the evidence sufficed.
running AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        least(ts + to_microseconds(round(step_s * 1e6)::BIGINT),
              day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS end_ts,
        count(*) OVER so_far >= getvariable('min_steps')
            AND avg(slow::INTEGER) OVER so_far >= getvariable('min_slow_step_ratio')
            AND sum(lost_s) OVER so_far > getvariable('min_lost_ratio') * sum(length_s) OVER so_far
            AS sufficient
    FROM judged
    WINDOW so_far AS (PARTITION BY cluster, job_id, attempt, rank, day_ts ORDER BY ts, step
                      ROWS UNBOUNDED PRECEDING)
),
evidence AS (
    SELECT cluster, job_id, attempt, rank, day_ts, min(end_ts) AS evidence_ts
    FROM running
    WHERE sufficient
    GROUP BY ALL
),
measured AS (
    SELECT cluster, job_id, attempt, rank, day_ts,
        count(*) AS step_count,
        min(ranks) - 1 AS peer_count,
        list_sort(list(step_ratio)) AS ratios,
        median(step_ratio) AS ratio,
        avg(slow::INTEGER) AS slow_step_ratio,
        -- Rounded so that the order of addition never shows.
        round(fsum(lost_s), 6) AS lost_s,
        round(fsum(length_s), 6) AS length_s
    FROM judged
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
    SELECT cluster, job_id, attempt, rank, day_ts, max(ranks) - 1 AS most_peers
    FROM ordered
    GROUP BY ALL
),
judgement AS (
    SELECT *,
        lost_s / nullif(length_s, 0) AS lost_ratio,
        CASE
            WHEN has_compute IS NOT TRUE THEN 'compute time unknown'
            WHEN has_comparable IS NOT TRUE THEN 'pipeline stage unknown'
            WHEN most_peers < getvariable('min_peers')
                THEN format('fewer than {} peers in its stage', getvariable('min_peers'))
            WHEN coalesce(step_count, 0) < getvariable('min_steps')
                THEN format('fewer than {} steps', getvariable('min_steps'))
            WHEN lost_ratio IS NULL THEN 'step length unknown'
        END AS obstacle,
        CASE
            WHEN slow_step_ratio < getvariable('min_slow_step_ratio') THEN 'slow in few steps or in none'
            WHEN lost_ratio <= getvariable('min_lost_ratio') THEN 'slow, but too little is lost'
        END AS excuse
    FROM rank_day r
    JOIN job_day d USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN measured m USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN most_peers USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN evidence USING (cluster, job_id, attempt, rank, day_ts)
)
SELECT cluster, job_id, attempt, rank, day_ts, pp_stage, node, gpu_uuid, start_ts, end_ts, time_basis,
    coalesce(step_count, 0) AS step_count,
    coalesce(step_count, 0) / steps AS coverage_ratio,
    coalesce(peer_count, most_peers, 0) AS peer_count,
    ratio,
    if(step_count >= 8, ratios[floor(step_count / 2 - 0.98 * sqrt(step_count))::INTEGER], NULL)
        AS ratio_lower,
    if(step_count >= 8, ratios[ceil(1 + step_count / 2 + 0.98 * sqrt(step_count))::INTEGER], NULL)
        AS ratio_upper,
    slow_step_ratio,
    lost_ratio,
    gpus::BIGINT AS job_gpu_count,
    lost_s * gpus AS lost_gpu_s,
    if(obstacle IS NULL AND excuse IS NULL, evidence_ts, NULL) AS evidence_ts,
    CASE
        WHEN obstacle IS NOT NULL THEN 'not_evaluable'
        WHEN excuse IS NOT NULL THEN 'not_slow'
        ELSE 'slow'
    END AS verdict,
    coalesce(obstacle, excuse) AS reason
FROM judgement
