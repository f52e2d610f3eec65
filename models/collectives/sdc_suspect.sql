/*
doc = """
Signs of silent data corruption per rank and day. Replicas of one shard whose weights differ after a step
are a fact: something computed wrongly, or the program does not keep them equal. A loss or gradient norm
far from that of the peers is no more than a reason to look, and only when it keeps coming from one rank:
batches differ, and a bad one strikes any rank. One row per rank, day and signal with a deviation.
"""
grain = ["cluster", "job_id", "attempt", "rank", "signal", "day_ts"]
time = "day_ts"
sort = ["job_id", "rank", "signal"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
rank = { type = "INTEGER", doc = "global rank" }
signal = { type = "VARCHAR", doc = "weight_hash, grad_norm or loss" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
node = { type = "VARCHAR", doc = "node the rank ran on; NULL where several that day" }
gpu_uuid = { type = "VARCHAR", doc = "GPU the rank ran on; NULL where several that day" }
time_basis = { type = "VARCHAR", doc = "what times mean: step_sample.time_basis" }
step_count = { type = "BIGINT", doc = "steps of the day in which the signal was known and there were peers", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "of the rank's steps that day", unit = "ratio" }
peer_count = { type = "BIGINT", doc = "fewest peers in such a step: replicas of the same shard for weight_hash, ranks of the same pipeline stage for the others", unit = "count" }
deviating_step_count = { type = "BIGINT", doc = "steps in which this rank deviates", unit = "count" }
job_deviation_count = { type = "BIGINT", doc = "the same over all ranks of the job that day", unit = "count" }
share_ratio = { type = "DOUBLE", doc = "this rank's part of them", unit = "ratio" }
worst_ratio = { type = "DOUBLE", doc = "largest value over the peers' median, by distance from 1; NULL for weight_hash and where it was no number", unit = "ratio" }
first_step = { type = "BIGINT", doc = "first deviating step" }
first_ts = { type = "TIMESTAMP", doc = "start of that step" }
evidence_ts = { type = "TIMESTAMP", doc = "start of the step at which the verdict was first certain; NULL unless mismatch, tied_mismatch or suspect" }
last_ts = { type = "TIMESTAMP", doc = "start of the last deviating step" }
verdict = { type = "VARCHAR", doc = "mismatch (its weights differ from those of most replicas: a fact), tied_mismatch (they differ, no value has most replicas, and on the same day they agreed: one of them), suspect (deviates again and again, and others hardly do), not_suspect" }

[params.spreads]
default = 8
doc = "count of robust spreads (1.4826 MAD over the peers of the step) beyond which a value deviates. Twice the customary 3.5 to 4: losses of batches have heavy tails. Own choice."
[params.min_relative]
default = 0.20
doc = "ratio of the peers' median; floor of that distance, for peers that agree closely. Own choice."
[params.min_steps]
default = 3
doc = "count; fewer deviating steps can be bad batches."
[params.min_share_ratio]
default = 0.5
doc = "ratio; a rank that is no more than one of many that deviate shows a property of the data."
[params.min_peers]
default = 3
doc = "count; fewer peers have no spread."
*/
WITH seen AS (
    SELECT *, date_trunc('day', ts)::TIMESTAMP AS day_ts
    FROM step_sample
),

rank_day AS (
    SELECT
        cluster, job_id, attempt, rank, day_ts, count(*) AS steps,
        if(min(node) = max(node), min(node), NULL) AS node,
        if(min(gpu_uuid) = max(gpu_uuid), min(gpu_uuid), NULL) AS gpu_uuid,
        min(time_basis) AS time_basis
    FROM seen
    GROUP BY ALL
),

hashed AS (
    SELECT
        *,
        count(*) OVER shard - 1 AS peers,
        min(weight_hash) OVER shard <> max(weight_hash) OVER shard AS differs,
        count(*) OVER (
            PARTITION BY cluster, job_id, attempt, day_ts, step, pp_stage, tp_rank, weight_hash
        ) AS alike
    FROM seen
    WHERE weight_hash IS NOT NULL AND pp_stage IS NOT NULL AND tp_rank IS NOT NULL
    WINDOW shard AS (PARTITION BY cluster, job_id, attempt, day_ts, step, pp_stage, tp_rank)
),

mismatch AS (
    SELECT
        cluster, job_id, attempt, rank, 'weight_hash' AS signal, day_ts, step, ts, peers,
        NOT bool_or(2 * alike > peers + 1) OVER shard AS is_tied,
        -- Ranks that never agree hold parts of the weights each, as in fully sharded training.
        differs AND 2 * alike <= peers + 1
            AND (NOT is_tied OR bool_or(NOT differs) OVER shard_day) AS deviates,
        NULL::DOUBLE AS value_ratio
    FROM hashed
    WHERE peers > 0
    WINDOW
        shard AS (PARTITION BY cluster, job_id, attempt, day_ts, step, pp_stage, tp_rank),
        shard_day AS (PARTITION BY cluster, job_id, attempt, day_ts, pp_stage, tp_rank)
),

value AS (
    SELECT
        cluster, job_id, attempt, rank, day_ts, step, ts, pp_stage,
        unnest(['grad_norm', 'loss']) AS signal,
        unnest([grad_norm, loss]) AS value,
        isfinite(value) AS is_finite
    FROM seen
    WHERE pp_stage IS NOT NULL
),

centred AS (
    SELECT
        *,
        count(*) OVER same_work - 1 AS peers,
        count(*) FILTER (is_finite) OVER same_work AS finite_ranks,
        median(value) FILTER (is_finite) OVER same_work AS middle,
        mad(value) FILTER (is_finite) OVER same_work AS deviation
    FROM value
    WHERE value IS NOT NULL
    WINDOW same_work AS (PARTITION BY cluster, job_id, attempt, day_ts, step, pp_stage, signal)
),

deviation AS (
    SELECT
        cluster, job_id, attempt, rank, signal, day_ts, step, ts, peers,
        if(
            is_finite,
            abs(value - middle) > greatest(
                getvariable('spreads') * 1.4826 * deviation,
                getvariable('min_relative') * abs(middle)
            ),
            -- Where most ranks have no number, the job has diverged.
            2 * finite_ranks > peers + 1
        ) AS deviates,
        false AS is_tied,
        if(is_finite, value / nullif(middle, 0), NULL) AS value_ratio
    FROM centred
    WHERE peers >= getvariable('min_peers') AND finite_ranks > 0
    UNION ALL BY NAME
    SELECT * FROM mismatch
),

counted AS (
    SELECT
        *,
        count(*) FILTER (deviates) OVER so_far AS own_so_far
    FROM deviation
    WINDOW so_far AS (
        PARTITION BY cluster, job_id, attempt, rank, signal, day_ts ORDER BY ts, step
        ROWS UNBOUNDED PRECEDING
    )
),

measured AS (
    SELECT
        cluster, job_id, attempt, rank, signal, day_ts,
        count(*) AS step_count,
        min(peers) AS peer_count,
        count(*) FILTER (deviates) AS deviating_step_count,
        bool_and(is_tied) FILTER (deviates) AS is_tied,
        arg_max(value_ratio, (abs(value_ratio - 1), step)) FILTER (deviates) AS worst_ratio,
        min(step) FILTER (deviates) AS first_step,
        min(ts) FILTER (deviates) AS first_ts,
        min(ts) FILTER (deviates AND own_so_far >= getvariable('min_steps')) AS certain_ts,
        max(ts) FILTER (deviates) AS last_ts
    FROM counted
    GROUP BY ALL
),

judged AS (
    SELECT
        *,
        sum(deviating_step_count) OVER job_day::BIGINT AS job_deviation_count,
        deviating_step_count / sum(deviating_step_count) OVER job_day AS share_ratio,
        CASE
            WHEN signal = 'weight_hash' THEN if(is_tied, 'tied_mismatch', 'mismatch')
            WHEN certain_ts IS NOT NULL AND share_ratio >= getvariable('min_share_ratio')
                THEN 'suspect'
            ELSE 'not_suspect'
        END AS verdict
    FROM measured
    WHERE deviating_step_count > 0
    WINDOW job_day AS (PARTITION BY cluster, job_id, attempt, signal, day_ts)
)

SELECT
    cluster, job_id, attempt, rank, signal, day_ts, node, gpu_uuid, time_basis, step_count,
    step_count / steps AS coverage_ratio,
    peer_count, deviating_step_count, job_deviation_count, share_ratio, worst_ratio, first_step,
    first_ts,
    CASE verdict WHEN 'suspect' THEN certain_ts WHEN 'not_suspect' THEN NULL ELSE first_ts END
        AS evidence_ts,
    last_ts, verdict
FROM judged
JOIN rank_day USING (cluster, job_id, attempt, rank, day_ts)
