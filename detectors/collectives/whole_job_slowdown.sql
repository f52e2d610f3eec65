/*
title = "The steps of a job became slower"
domain = "performance"
kind = "whole_job_slowdown"
severity = "medium"
reviewed = "2026-11-30"
one_of = ["train_step", "step_sample"]

flags = """
A job whose steps take at least 1.03 times as long as before: the median of its latest 3, 5, 10 or 20
logged steps lies that much, and five standard errors, above the median of the up to 20 before them. One
finding per slowdown. Where records of single ranks show one that became slow at that time, `straggler_rank`
reports it and this detector stays silent. `low` once the job has recovered within 10 logged steps,
`high` from 1.10 on.
"""
why = """
A log of step times is all that most jobs keep. BLOOM's training ran 5 % slower for days because of one
GPU; nothing else said so. At 384 GPUs that was 0.62 GPU-hours in every step.
"""
looks_like = """
A change of the code, the data mix, the sequence length or the parallel layout at that step. Evaluation,
checkpoints or profiling in several steps in a row. Storage or a network that others load. A job that was
faster for a while, as right after a restart. A batch size that the log does not state and that grew.
"""
misses = """
Which rank, link or cause it is: the log does not know. A job that was slow from its first 8 logged steps
on, and a slowdown that sets in while a slow start of at least the same size still fills the 20 steps
before. Slow drifts, unless 20 steps differ from the 20 before by 3 %. Slowdowns that a noisy series
hides: with a spread of 3.6 % as in Megatron's Mixtral run, a fifth of those of 5 % is found.
Steps that were not logged. Changes across a restart: every attempt is judged alone.
"""
todo = """
Compare compute, communication and data time of the ranks before and after, where they are recorded.
Without such records: look at clocks, throttling and link errors of all the job's GPUs at `start_ts`, at
what else started then on its storage and switches, and at what the run's owner changed. A bisection of
the nodes with a short benchmark finds a slow one; BLOOM's was only 2.5 % slower alone.
"""

[params.high_ratio]
default = 1.10
doc = "ratio from which severity is high. Greyhound's verification limit."
[params.short_count]
default = 10
doc = "count; logged slow steps up to which a slowdown that is over has low severity. Own choice."
[params.same_time_s]
default = 2220
doc = "s; a rank whose slowness began within so long of the job's is what made it slow: one that was slow before changed nothing. Twenty of BLOOM's steps of 111 s, as many as step_straggler looks at."
*/
WITH judged AS (
    SELECT cluster, job_id, attempt, verdict, slow_start_ts, slow_end_ts, start_ts, end_ts
    FROM step_straggler
    WHERE verdict <> 'not_evaluable'
),
witnessed AS (
    SELECT c.cluster, c.job_id, c.attempt, c.evidence_ts,
        count(*) AS ranks_judged,
        bool_or(verdict = 'slow' AND slow_end_ts >= c.start_ts
            AND abs(epoch(slow_start_ts) - epoch(c.start_ts)) <= getvariable('same_time_s')) AS explained
    FROM step_time_change c
    JOIN judged j ON (c.cluster, c.job_id, c.attempt) = (j.cluster, j.job_id, j.attempt)
        AND j.start_ts <= c.end_ts AND j.end_ts >= c.start_ts
    GROUP BY ALL
)
SELECT
    concat_ws('/', cluster, job_id, attempt, step) AS subject,
    1 - 1 / ratio AS score,
    CASE
        WHEN recovered AND slow_count <= getvariable('short_count') THEN 'low'
        WHEN ratio >= getvariable('high_ratio') THEN 'high'
        ELSE 'medium'
    END AS severity,
    start_ts,
    end_ts,
    evidence_ts AS detected_at,
    [cluster] AS cluster,
    [job_id] AS job_id,
    json_object(
        'quantity', 'step time over that of the steps before',
        'step', step,
        'evidence_step', evidence_step,
        'ratio', round(ratio, 4),
        'baseline_s', round(baseline_s, 4),
        'level_s', round(level_s, 4),
        'noise_ratio', round(noise_ratio, 4),
        'delay_count', delay_count,
        'slow_count', slow_count,
        'recovered', recovered,
        'lost_s', round(lost_s, 1),
        'ranks_judged', coalesce(ranks_judged, 0),
        'source', source,
        'attempt', attempt,
        'time_basis', time_basis
    )::VARCHAR AS evidence
FROM step_time_change
LEFT JOIN witnessed USING (cluster, job_id, attempt, evidence_ts)
WHERE NOT coalesce(explained, false)
