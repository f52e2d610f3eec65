/*
title = "A job reads a checkpoint more often than its starts explain"
domain = "security"
severity = "medium"
attack = ["T1530", "T1195", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
lookback = "28d"
optional = ["manifest_object", "stored_object"]
flags = """
A job reads a checkpoint in a day more than twice as often per start as jobs of its name did at most in the 28 days
before (five or more known), or, without that history, more than twice as often as its GPUs, should each read the
whole. High from four times.
"""
why = """
Theft inside a job hides among its restarts; how much restarts read is known from the scheduler and the checkpoint's
size.
"""
looks_like = """
Several jobs of one user at once whose sessions name none: all their reads are laid to one. A new loader or a new parallel layout; sweeps that load again within one job.
"""
misses = """
One extra copy where every rank reads the whole; jobs that read once and send (see read_then_send).
"""
todo = """
Compare with the loader's layout; look at the nodes' egress in the job's time.
"""

[params.times]
default = 2
doc = "times what is expected"

[params.min_past]
default = 5
doc = "job days of the name in the 28 days before"

[params.min_bytes]
default = 1000000000
doc = "bytes above what is expected"
*/
WITH past AS (
    SELECT
        *,
        max(reads_per_start) OVER before AS past_most,
        count(*) OVER before AS past_count
    FROM job_checkpoint_day
    WINDOW before AS (
        PARTITION BY cluster, job_name ORDER BY day_ts
        RANGE BETWEEN INTERVAL 28 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
),

judged AS (
    SELECT *, if(past_count >= getvariable('min_past'), greatest(1, past_most), reader_count) AS expected
    FROM past
)

SELECT
    concat_ws('|', cluster, job_id, checkpoint, day_ts) AS subject,
    least(1.0, reads_per_start / expected / 10) AS score,
    if(reads_per_start > 2 * getvariable('times') * expected, 'high', 'medium') AS severity,
    first_ts AS start_ts,
    last_ts AS end_ts,
    last_ts AS detected_at,
    expected::DOUBLE AS lower,
    reads_per_start AS upper,
    [cluster] AS cluster,
    [job_id] AS job_id,
    principals AS principal,
    [checkpoint] AS checkpoint,
    ips AS ip,
    json_object(
        'quantity', 'reads of the whole checkpoint per start: expected (lower), seen (upper)',
        'starts', start_count,
        'read_bytes', read_bytes,
        'checkpoint_bytes', checkpoint_bytes,
        'known_days_of_the_name', past_count
    ) AS evidence
FROM judged
WHERE reads_per_start > getvariable('times') * expected
    AND read_bytes - expected * start_count * checkpoint_bytes >= getvariable('min_bytes')
