/*
title = "A job lost more of a day to one cause than it should"
domain = "performance"
kind = "lost_goodput"
severity = "medium"
reviewed = "2026-11-30"
one_of = ["gpu_sample", "step_sample", "train_step"]
optional = [
    "collective", "collective_group", "collective_perf", "comm_function_count", "comm_state", "gpu_event", "gpu_identity",
    "inventory_gpu", "job_attempt", "nccl_log_event", "price", "rank_map", "train_event",
]

flags = """
A job's day on which one owner of the ledger (goodput_segment), other than productive, evaluation and unexplained, holds
at least `min_gpu_h` GPU-hours and at least `min_share_ratio` (idle: `min_idle_share_ratio`) of the job's allocation of that day. One finding per job,
day and cause; the culprit with most of it is named where one is known. `high` from three times both limits.
"""
why = """
A slow rank, a hang or a checkpoint is seen by its own rule. What it costs is seen only when its seconds are held against
those of the allocation: restarts that take twenty minutes each, a job that saves every ten minutes, a GPU allocation that
does nothing over the weekend.
"""
looks_like = """
Short jobs: initialisation is a large share of an hour and few GPU-hours, so both limits must be met. A notebook that waits
for its user, or a serving replica without requests, is idle on purpose: from half of the day on it is a finding all the
same, since the GPUs are held. Work done again on purpose after
a change of hyperparameters looks like lost work.
"""
misses = """
What the evidence does not show: without step logs only idle GPUs have an owner, and everything else is unexplained, which
is no finding. Losses that many jobs have a little of. A job that is slow all its life has a slow ideal: job_mfu shows it.
"""
todo = """
Look at goodput_segment of the job for when it happened. init and restart: image, compilation, collective set-up.
checkpoint_save: checkpoint_economics says which interval costs least. lost_work: save more often, or find what stopped the
job. data_stall, straggler, throttle, silent_degradation, communication_stall, hang_detection: the findings of that job.
idle: ask the user.
"""

[params.min_share_ratio]
default = 0.10
doc = "ratio of the job's allocation of the day. Published runs keep 86 % and more of their time (BLOOM 86.8 %, MegaScale above 90 %): a tenth lost to a single cause stands out."
[params.min_idle_share_ratio]
default = 0.5
doc = "ratio; the same for idle GPUs: a serving replica that waits for requests is idle for a quarter of a day (simulated week), a notebook for longer."
[params.min_gpu_h]
default = 8
doc = "GPU-hours; an hour of a node of eight. Own choice: below it nobody should be called."

[needs]
goodput_cause_day = "evidence <> 'scheduler'"
*/
WITH job AS (
    SELECT cluster, job_id, day_ts, sum(gpu_h) AS gpu_h
    FROM goodput_cause_day
    GROUP BY ALL
),
lost AS (
    SELECT
        cluster, job_id, day_ts, cause, sum(gpu_h) AS gpu_h, max(attempt) AS attempt,
        any_value(principal) AS principal,
        if(max(culprit) = '', NULL, arg_max(culprit, (gpu_h, culprit)) FILTER (culprit <> '')) AS culprit,
        sum(cost) AS cost, min(currency) AS currency, max(evidence) AS evidence
    FROM goodput_cause_day
    WHERE cause NOT IN ('productive', 'evaluation', 'unexplained')
    GROUP BY ALL
),
span AS (
    SELECT
        cluster, job_id, date_trunc('day', start_ts) AS day_ts, class AS cause,
        min(start_ts) AS start_ts, max(end_ts) AS end_ts
    FROM goodput_segment
    GROUP BY ALL
),
judged AS (
    SELECT
        l.*, j.gpu_h AS allocated_gpu_h, l.gpu_h / j.gpu_h AS share_ratio, s.start_ts, s.end_ts
    FROM lost l
    JOIN job j USING (cluster, job_id, day_ts)
    JOIN span s USING (cluster, job_id, day_ts, cause)
)
SELECT
    concat_ws(' ', cluster, job_id, day_ts::DATE, cause) AS subject,
    if(
        gpu_h >= 3 * getvariable('min_gpu_h') AND share_ratio >= 3 * getvariable('min_share_ratio'),
        'high', 'medium'
    ) AS severity,
    least(1.0, share_ratio)::DOUBLE AS score,
    start_ts,
    end_ts,
    -- Whether the share is reached stands at the end of what was lost, at the latest at midnight.
    least(end_ts, day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS detected_at,
    [cluster] AS cluster,
    [job_id] AS job_id,
    if(culprit IS NULL OR starts_with(culprit, 'rank '), [], [culprit]) AS node,
    if(principal IS NULL, [], [principal]) AS principal,
    json_object(
        'quantity', 'GPU-hours lost', 'cause', cause, 'lost_gpu_h', round(gpu_h, 6),
        'allocated_gpu_h', round(allocated_gpu_h, 6), 'share_ratio', round(share_ratio, 6), 'culprit', culprit,
        'cost', round(cost, 6), 'currency', currency, 'attempt', attempt
    ) AS evidence
FROM judged
WHERE gpu_h >= getvariable('min_gpu_h')
    AND share_ratio >= if(cause = 'idle', getvariable('min_idle_share_ratio'), getvariable('min_share_ratio'))
