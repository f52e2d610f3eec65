/*
doc = "Per rank and day: whether its own work takes longer than that of its peers, step by step (step_ratio), and what that costs. The job being slow, or a stage being heavy, accuses nobody."
grain = ["cluster", "job_id", "attempt", "rank", "day_ts"]
time = "day_ts"
lookback = "1d"             # whether the job ran the day before: then nothing warms up
sort = ["job_id", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
rank = { type = "INTEGER", doc = "global rank" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
pp_stage = { type = "INTEGER", doc = "pipeline stage" }
node = { type = "VARCHAR", doc = "node the rank ran on, of a slow rank while it was slow; NULL where several: an elastic restart renumbers ranks within an attempt" }
gpu_uuid = { type = "VARCHAR", doc = "GPU the rank ran on, in the same way" }
start_ts = { type = "TIMESTAMP", doc = "start of its first step of the day" }
end_ts = { type = "TIMESTAMP", doc = "end of its last step of the day; its start where lengths are unknown" }
time_basis = { type = "VARCHAR", doc = "what times mean: step_sample.time_basis" }
basis = { type = "VARCHAR", doc = "what it was compared with: stage, stages or history, as in step_ratio" }
load_basis = { type = "VARCHAR", doc = "how uneven batches were taken out of ratio: none, or step_ratio.load_basis where only without them the rank is slow; NULL where nothing was judged" }
step_count = { type = "BIGINT", doc = "steps judged: compute and what to compare it with are known", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "steps judged of the job's steps seen that day", unit = "ratio" }
recorded_step_ratio = { type = "DOUBLE", doc = "steps of the job with any record, of those that their numbers span that day: 0.05 where every twentieth is recorded", unit = "ratio" }
peer_count = { type = "BIGINT", doc = "fewest peers in a judged step; most in any step where none was judged", unit = "count" }
ratio = { type = "DOUBLE", doc = "median over the steps of own work (step_ratio.own_s) by what peers take: over the steps of a slow rank that the conditions held over (of several such times together it may lie a little under min_ratio), else over all judged steps", unit = "ratio" }
ratio_lower = { type = "DOUBLE", doc = "lower bound of that median, 95 %: order statistic floor(n/2 - 0.98 sqrt n) of the n steps (sign test); NULL under 8 steps. Steps are not independent, so the true interval is wider", unit = "ratio" }
ratio_upper = { type = "DOUBLE", doc = "upper bound, order statistic ceil(1 + n/2 + 0.98 sqrt n)", unit = "ratio" }
noise_ratio = { type = "DOUBLE", doc = "mean of step_ratio.noise_ratio over the judged steps", unit = "ratio" }
history_ratio = { type = "DOUBLE", doc = "second witness: ratio by the rank's own median before it became slow; NULL with fewer than 10 steps before, as for a rank that was slow all day", unit = "ratio" }
load_ratio = { type = "DOUBLE", doc = "median over the same steps of step_ratio.load_ratio: more tokens or longer sequences than its peers", unit = "ratio" }
slow_step_ratio = { type = "DOUBLE", doc = "steps, of those that ratio is taken over, in which the rank was slower than min_step_ratio", unit = "ratio" }
slow_start_ts = { type = "TIMESTAMP", doc = "start of the first of the slow steps; NULL unless slow" }
slow_end_ts = { type = "TIMESTAMP", doc = "end of the last step at which the conditions held; NULL unless slow" }
lost_ratio = { type = "DOUBLE", doc = "own work beyond the peers' in slow steps, of the length of all judged steps of the day; at most what the rank costs the job: part of it may hide in waiting, and two slow ranks of a job each show it", unit = "ratio" }
job_gpu_count = { type = "BIGINT", doc = "GPUs of the job as far as records show; all wait for the slow one", unit = "count" }
lost_gpu_s = { type = "DOUBLE", doc = "the same in GPU-seconds of the whole job, where times are absolute by recorded_step_ratio: steps without a record count like those with one", unit = "s" }
evidence_ts = { type = "TIMESTAMP", doc = "end of the step at which all conditions first held together, within the day; NULL unless slow" }
verdict = { type = "VARCHAR", doc = "slow, not_slow or not_evaluable" }
reason = { type = "VARCHAR", doc = "why not slow, or why not evaluable" }

[params.min_ratio]
default = 1.04
doc = "ratio; the median over the steps from which a rank is slow. Healthy ranks of the public traces AR and ST stay under 1.01; the slow one of AR reaches 2.357. Sequence lengths of SE reach 1.059 and are stopped by min_noise_count."
[params.min_step_ratio]
default = 1.02
doc = "ratio; a step above it is slow. Half of min_ratio's excess, so that a rank at min_ratio is slow in most of its steps."
[params.min_slow_step_ratio]
default = 0.80
doc = "ratio; share of the last min_steps that must be slow. A checkpoint or a straggler that moves around stays below."
[params.min_steps]
default = 20
doc = "count; steps that the conditions must hold over: the last so many by their median. At 20 its interval is the 5th to 16th step. Where steps wander by more than 1.3 %, also the last five and twenty times as many, or all of the day so far, by the mean logarithm of the ratios, cut at three standard deviations: uneven batches change from step to step, a sick rank stays."
[params.min_noise_count]
default = 5
doc = "count; standard errors (noise_ratio / sqrt n of a mean, 1.2533 times that of a median of normal values) to exceed 1 by: chance accuses nobody among 64 ranks judged at every step of a day."
[params.min_ratio_noise_count]
default = 2
doc = "count; standard errors that the median must exceed min_ratio by. A rank that is 2 to 3 % slow for good reaches min_ratio by chance in one of a day's thousand windows of 20 steps: one such accusation in some 2,300 simulated rank-days without this, none with it, and no rank of 6 % missed for it (`simulate ranks`, seeds 1, 2, 4 to 6)."
[params.min_spread_count]
default = 4
doc = "count; robust standard deviations of the other ranks' medians over the same steps (1.4826 times the median distance of those below their middle, where no sick rank lies) that its own must lie above theirs. 64 ranks that each wander slowly by 2 % reach 5 % now and then, and none is sick."
[params.warm_up_steps]
default = 100
doc = "count of training steps, recorded or not; slowness that has gone before so many steps since the day's first, and stayed away for half of min_steps recorded ones, is a warm-up. Megatron's Mixtral run warms up over its first 100 steps."
[params.min_lost_ratio]
default = 0.01
doc = "ratio; what is lost must exceed it. The public trace ST has a last arriver in every step that costs 0.1 ms of 2.2 s."
*/
WITH viewed AS (
    SELECT *, 'none' AS view FROM step_ratio WHERE ratio IS NOT NULL
    UNION ALL
    SELECT * REPLACE (even_ratio AS ratio, own_s / even_ratio AS reference_s, even_noise_ratio AS noise_ratio,
                      NULL AS load_ratio), load_basis
    FROM step_ratio WHERE even_ratio > 0
),
judged AS (
    SELECT * EXCLUDE (load_basis, even_ratio, even_noise_ratio),
        date_trunc('day', ts) AS day_ts,
        ratio > getvariable('min_step_ratio') AS slow,
        -- Sums of whole nanoseconds do not depend on the order of rows.
        if(slow, round(least(own_s - reference_s, job_step_s) * 1e9)::BIGINT, 0) AS lost_ns,
        round(job_step_s * 1e9)::BIGINT AS length_ns,
        round(noise_ratio * 1e9)::BIGINT AS noise_e9,
        -- Cut at three standard deviations: no single step speaks for the others. Of history the baseline is short.
        if(basis = 'history', NULL, round(1e9 * least(greatest(ln(ratio), -3 * noise_ratio), 3 * noise_ratio))::BIGINT)
            AS excess_e9
    FROM viewed
),
-- Over the last steps, five and twenty times as many, and all so far: how slow, how certain, at what cost.
measured_so_far AS (
    SELECT cluster, job_id, attempt, rank, day_ts, view, step, ts,
        least(end_ts, day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS end_ts,
        row_number() OVER so_far AS steps,
        -- What has ended must not linger in the mean of a longer past.
        1e-9 * avg(excess_e9) OVER more > ln(getvariable('min_step_ratio')) AS lasts,
        [
            {'ts': first_value(ts) OVER latest, 'steps': getvariable('min_steps'),
             'excess': median(ratio) OVER latest - 1,
             'error': 1.2533e-9 * avg(noise_e9) OVER latest / sqrt(count(*) OVER latest),
             'is_steady': avg(slow::INTEGER) OVER latest >= getvariable('min_slow_step_ratio'),
             'lost': sum(lost_ns) OVER latest, 'length': sum(length_ns) OVER latest},
            {'ts': first_value(ts) OVER more, 'steps': 5 * getvariable('min_steps'),
             'excess': exp(1e-9 * avg(excess_e9) OVER more) - 1,
             'error': 1e-9 * avg(noise_e9) OVER more / sqrt(count(*) OVER more),
             'is_steady': true, 'lost': sum(lost_ns) OVER more, 'length': sum(length_ns) OVER more},
            {'ts': first_value(ts) OVER many, 'steps': 20 * getvariable('min_steps'),
             'excess': exp(1e-9 * avg(excess_e9) OVER many) - 1,
             'error': 1e-9 * avg(noise_e9) OVER many / sqrt(count(*) OVER many),
             'is_steady': lasts, 'lost': sum(lost_ns) OVER many, 'length': sum(length_ns) OVER many},
            {'ts': first_value(ts) OVER so_far, 'steps': 5 * getvariable('min_steps'),
             'excess': exp(1e-9 * avg(excess_e9) OVER so_far) - 1,
             'error': 1e-9 * avg(noise_e9) OVER so_far / sqrt(count(*) OVER so_far),
             'is_steady': lasts, 'lost': sum(lost_ns) OVER so_far, 'length': sum(length_ns) OVER so_far}
        ] AS spans
    FROM judged
    WINDOW of_rank AS (PARTITION BY cluster, job_id, attempt, rank, day_ts, view ORDER BY ts, step),
        so_far AS (of_rank ROWS UNBOUNDED PRECEDING),
        latest AS (of_rank ROWS (getvariable('min_steps') - 1) PRECEDING),
        more AS (of_rank ROWS (5 * getvariable('min_steps') - 1) PRECEDING),
        many AS (of_rank ROWS (20 * getvariable('min_steps') - 1) PRECEDING)
),
running AS (
    SELECT * EXCLUDE (spans),
        list_filter(spans, lambda s: steps >= s.steps AND s.is_steady AND s.excess >= greatest(
            getvariable('min_ratio') - 1 + getvariable('min_ratio_noise_count') * coalesce(s.error, 0),
            getvariable('min_noise_count') * coalesce(s.error, 0))) AS slow_spans,
        list_min(list_transform(
            list_filter(slow_spans, lambda s: s.lost > getvariable('min_lost_ratio') * s.length),
            lambda s: s.ts)) AS since_ts
    FROM measured_so_far
),
-- Steps at which the conditions held, and those that they held over.
held AS (
    SELECT *,
        -- Slowness holds over min_steps: a part of the steps tells whose coincides, and pairs of ranks are many.
        dense_rank() OVER (PARTITION BY cluster, job_id, attempt, day_ts ORDER BY step)
            % greatest(getvariable('min_steps') // 4, 1) = 0 AS sampled,
        coalesce(min(since_ts) OVER from_here <= ts, false) AS within
    FROM running
    WINDOW from_here AS (PARTITION BY cluster, job_id, attempt, rank, day_ts, view ORDER BY ts, step
                         ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
),
span AS (
    SELECT cluster, job_id, attempt, rank, day_ts, view,
        bool_or(len(slow_spans) > 0) AS ever_slow,
        min(end_ts) FILTER (since_ts IS NOT NULL) AS evidence_ts,
        min(since_ts) AS from_ts,
        max(end_ts) FILTER (since_ts IS NOT NULL) AS slow_end_ts,
        max(steps) FILTER (since_ts IS NOT NULL) AS until_steps,
        max(step) FILTER (since_ts IS NOT NULL) - min(step) AS since_first,
        max(steps) AS all_steps,
        count(*) FILTER (within AND sampled) AS slow_steps
    FROM held
    GROUP BY ALL
),
-- Others of the job that were slow at other times: two of them, and it moves around.
together AS (
    SELECT a.cluster, a.job_id, a.attempt, a.day_ts, a.view, a.rank, b.rank AS other, count(*) AS steps
    FROM held a
    JOIN held b ON (a.cluster, a.job_id, a.attempt, a.day_ts, a.view, a.step)
        = (b.cluster, b.job_id, b.attempt, b.day_ts, b.view, b.step) AND a.rank <> b.rank
    WHERE a.within AND b.within AND a.sampled AND b.sampled
    GROUP BY ALL
),
in_turn AS (
    SELECT a.cluster, a.job_id, a.attempt, a.rank, a.day_ts, a.view, count(*) AS others
    FROM span a
    JOIN span b ON (a.cluster, a.job_id, a.attempt, a.day_ts, a.view)
        = (b.cluster, b.job_id, b.attempt, b.day_ts, b.view) AND a.rank <> b.rank
    LEFT JOIN together t ON (a.cluster, a.job_id, a.attempt, a.day_ts, a.view, a.rank, b.rank)
        = (t.cluster, t.job_id, t.attempt, t.day_ts, t.view, t.rank, t.other)
    WHERE a.slow_steps > 0 AND b.slow_steps > 0
        AND 2 * coalesce(t.steps, 0) < least(a.slow_steps, b.slow_steps)
    GROUP BY ALL
),
-- How far the job's other ranks lie below their middle in the same steps: wander moves all ranks, both ways.
apart AS (
    SELECT cluster, job_id, attempt, rank, day_ts, view, median(ratio) AS others_ratio,
        1.4826 * list_median(list_filter(list_transform(list(ratio), lambda r: others_ratio - r), lambda d: d >= 0))
            AS spread_ratio
    FROM (
        SELECT a.cluster, a.job_id, a.attempt, a.rank, a.day_ts, a.view, b.rank AS other, median(ratio) AS ratio
        FROM held a
        JOIN judged b ON (a.cluster, a.job_id, a.attempt, a.day_ts, a.view, a.step)
            = (b.cluster, b.job_id, b.attempt, b.day_ts, b.view, b.step) AND a.rank <> b.rank
        WHERE a.within
        GROUP BY ALL
    )
    GROUP BY ALL
),
placed AS (
    SELECT j.*, from_ts, from_ts IS NULL OR h.within AS within
    FROM judged j
    JOIN span USING (cluster, job_id, attempt, rank, day_ts, view)
    JOIN held h USING (cluster, job_id, attempt, rank, day_ts, view, step)
),
measured AS (
    SELECT cluster, job_id, attempt, rank, day_ts, view,
        count(*) AS step_count, min(peer_count) AS peer_count, min(basis) AS basis,
        list_sort(list(ratio) FILTER (within)) AS ratios,
        list_median(ratios) AS middle_ratio,
        median(load_ratio) FILTER (within) AS load_ratio,
        median(ratio / nullif(load_ratio, 0)) FILTER (within) AS unexplained_ratio,
        len(ratios) AS n, avg(slow::INTEGER) FILTER (within) AS slow_step_ratio,
        min(ts) FILTER (slow AND ts >= from_ts) AS slow_start_ts,
        median(ratio) FILTER (ts < from_ts) AS ratio_before,
        count(*) FILTER (ts < from_ts) AS steps_before,
        avg(noise_e9) / 1e9 AS noise_ratio, sum(lost_ns) / 1e9 AS lost_s, sum(length_ns) / 1e9 AS length_s
    FROM placed
    GROUP BY ALL
),
job_day AS (
    SELECT cluster, job_id, attempt, day_ts, count(*) AS steps, max(gpus) AS gpus,
        count(*) / (max(step) - min(step) + 1) AS recorded_step_ratio,
        coalesce(lag(day_ts) OVER (PARTITION BY cluster, job_id, attempt ORDER BY day_ts)
            = day_ts - INTERVAL 1 DAY, false) AS ran_before
    FROM (
        SELECT cluster, job_id, attempt, step, date_trunc('day', ts) AS day_ts,
            sum(coalesce(gpu_count, 1)) AS gpus
        FROM step_sample
        GROUP BY ALL
    )
    GROUP BY cluster, job_id, attempt, day_ts
),
rank_day AS (
    SELECT s.cluster, s.job_id, s.attempt, s.rank, date_trunc('day', s.ts) AS day_ts,
        min(s.pp_stage) AS pp_stage, min(s.ts) AS start_ts, max(r.end_ts) AS end_ts, min(time_basis) AS time_basis,
        max(r.peer_count) AS most_peers,
        -- Of several obstacles the one that came closest to a comparison.
        arg_max(obstacle, (r.peer_count IS NOT NULL, r.pp_stage IS NULL, obstacle)) AS obstacle
    FROM step_sample s
    JOIN step_ratio r USING (cluster, job_id, attempt, rank, step)
    GROUP BY ALL
),
-- Where it ran: of a slow rank in its slow steps only.
place AS (
    SELECT s.cluster, s.job_id, s.attempt, s.rank, date_trunc('day', s.ts) AS day_ts,
        coalesce(p.view, 'none') AS view,
        if(min(node) = max(node), min(node), NULL) AS node,
        if(min(gpu_uuid) = max(gpu_uuid), min(gpu_uuid), NULL) AS gpu_uuid
    FROM step_sample s
    LEFT JOIN placed p USING (cluster, job_id, attempt, rank, step)
    WHERE from_ts IS NULL OR (within AND slow)
    GROUP BY ALL
),
judgement AS (
    SELECT * EXCLUDE (p.cluster, p.job_id, p.attempt, p.rank, p.day_ts, p.view),
        lost_s / nullif(length_s, 0) AS lost_ratio,
        CASE
            WHEN step_count IS NULL THEN obstacle
            WHEN step_count < getvariable('min_steps') THEN format('fewer than {} steps', getvariable('min_steps'))
            WHEN length_s IS NULL THEN 'step length unknown'
        END AS hindrance,
        CASE
            WHEN evidence_ts IS NULL AND ever_slow THEN 'slow, but too little is lost'
            WHEN evidence_ts IS NULL THEN 'slow in few steps or in none'
            WHEN NOT ran_before AND since_first < getvariable('warm_up_steps')
                AND all_steps >= until_steps + getvariable('min_steps') / 2 THEN 'slow only while it warmed up'
            WHEN unexplained_ratio < getvariable('min_ratio') THEN 'has more tokens or longer sequences'
            WHEN middle_ratio - others_ratio < getvariable('min_spread_count') * spread_ratio
                THEN 'other ranks lie as far apart'
            WHEN others >= 2 THEN 'slow in turn with other ranks'
        END AS excuse,
        hindrance IS NULL AND excuse IS NULL AS accused
    FROM rank_day d
    JOIN job_day USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN measured USING (cluster, job_id, attempt, rank, day_ts)
    LEFT JOIN span USING (cluster, job_id, attempt, rank, day_ts, view)
    LEFT JOIN in_turn USING (cluster, job_id, attempt, rank, day_ts, view)
    LEFT JOIN apart USING (cluster, job_id, attempt, rank, day_ts, view)
    LEFT JOIN place p ON (p.cluster, p.job_id, p.attempt, p.rank, p.day_ts, p.view)
        = (d.cluster, d.job_id, d.attempt, d.rank, d.day_ts, coalesce(measured.view, 'none'))
)
SELECT cluster, job_id, attempt, rank, day_ts, pp_stage, node, gpu_uuid, start_ts, end_ts, time_basis, basis,
    view AS load_basis,
    coalesce(step_count, 0) AS step_count,
    coalesce(step_count, 0) / steps AS coverage_ratio, recorded_step_ratio,
    coalesce(peer_count, most_peers, 0) AS peer_count,
    middle_ratio AS ratio,
    if(n >= 8, ratios[floor(n / 2 - 0.98 * sqrt(n))::INTEGER], NULL) AS ratio_lower,
    if(n >= 8, ratios[ceil(1 + n / 2 + 0.98 * sqrt(n))::INTEGER], NULL) AS ratio_upper,
    noise_ratio,
    if(accused AND steps_before >= 10, middle_ratio / ratio_before, NULL) AS history_ratio,
    load_ratio, slow_step_ratio,
    if(accused, slow_start_ts, NULL) AS slow_start_ts, if(accused, slow_end_ts, NULL) AS slow_end_ts,
    lost_ratio,
    gpus::BIGINT AS job_gpu_count,
    lost_s * gpus / if(time_basis = 'absolute', recorded_step_ratio, 1) AS lost_gpu_s,
    if(accused, evidence_ts, NULL) AS evidence_ts,
    CASE
        WHEN hindrance IS NOT NULL THEN 'not_evaluable'
        WHEN excuse IS NOT NULL THEN 'not_slow'
        ELSE 'slow'
    END AS verdict,
    coalesce(hindrance, excuse) AS reason
FROM judgement
QUALIFY row_number() OVER (
    PARTITION BY cluster, job_id, attempt, rank, day_ts
    ORDER BY accused DESC, if(accused, evidence_ts, NULL), view = 'none' DESC NULLS LAST) = 1
