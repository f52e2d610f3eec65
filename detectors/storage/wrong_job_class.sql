/*
title = "Jobs of a kind that never needed a model read it"
domain = "security"
severity = "low"
attack = ["T1530", "T1195", "AML.T0035", "AML.T0010"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
lookback = "28d"
optional = ["manifest_object", "stored_object"]
flags = """
A job reads a tenth of a checkpoint and 1 GB of a model family which jobs of its name (digits in it aside) read on fewer
than three of the 28 days before, once a fortnight of jobs' reads is known. Low; medium where the name says data
preparation, notebook or the like, or the scheduler records that the job held no GPU. Supports other evidence, never
pages alone.
"""
why = """
Reads inside a job are covered by it, whoever sends them. Which kinds of work load which model repeats from week to
week; a kind that suddenly needs the large one is what a job that was taken over, or borrowed, looks like.
"""
looks_like = """
A new project or a renamed script; the first evaluation of a new family. A registered suppression of principal, family
and job name clears it.
"""
misses = """
Theft under a name that reads the family every week; jobs without a name; names made up anew for every run, which are
never known; the first fortnight of a store.
"""
todo = """
Ask the owner of the job why it needs this model; compare its image and its node's egress with those of its kind.
"""

[params.min_ratio]
default = 0.10
doc = "ratio of the checkpoint read by one job in a day"

[params.min_bytes]
default = 1000000000
doc = "bytes read as well"

[params.known_days]
default = 3
doc = "days of the 28 before with reads of the family from which a name's need is taken as known"

[params.learning_days]
default = 14
doc = "days of the 28 before on which jobs of the cluster read checkpoints, under which no name is called new"

[params.needless_pattern]
default = "notebook|jupyter|interactive|preproc|data.?prep|tokeni[sz]|download|etl"
doc = "regular expression, case ignored, of job names whose work needs no weights of others"
*/
WITH reads AS (
    SELECT *, regexp_replace(job_name, '\d+', '#', 'g') AS job_class
    FROM job_checkpoint_day
    WHERE job_name IS NOT NULL AND family IS NOT NULL
),

class_days AS (SELECT DISTINCT cluster, family, job_class, day_ts FROM reads),

known AS (
    SELECT
        cluster, family, job_class, day_ts,
        count(*) OVER (
            PARTITION BY cluster, family, job_class ORDER BY day_ts
            RANGE BETWEEN INTERVAL 28 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
        ) AS class_day_count
    FROM class_days
),

log_days AS (
    SELECT
        cluster, day_ts,
        count(*) OVER (
            PARTITION BY cluster ORDER BY day_ts
            RANGE BETWEEN INTERVAL 28 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
        ) AS log_day_count
    FROM (SELECT DISTINCT cluster, day_ts FROM class_days)
)

SELECT
    concat_ws('|', r.cluster, r.job_id, r.checkpoint, r.day_ts) AS subject,
    0.3 AS score,
    if(r.gpu_count = 0 OR regexp_matches(r.job_name, concat('(?i)', getvariable('needless_pattern'))), 'medium', 'low') AS severity,
    r.first_ts AS start_ts,
    r.last_ts AS end_ts,
    r.last_ts AS detected_at,
    least(1.0, r.read_bytes / r.checkpoint_bytes) AS upper,
    [r.cluster] AS cluster,
    [r.job_id] AS job_id,
    r.principals AS principal,
    [r.checkpoint] AS checkpoint,
    r.ips AS ip,
    json_object(
        'quantity', 'share of the checkpoint read by the job in the UTC day, at most',
        'family', r.family,
        'job_name', r.job_name,
        'days_the_name_read_the_family', k.class_day_count,
        'days_known', l.log_day_count,
        'gpus', r.gpu_count
    ) AS evidence
FROM reads r
JOIN known k USING (cluster, family, job_class, day_ts)
JOIN log_days l USING (cluster, day_ts)
WHERE k.class_day_count < getvariable('known_days') AND l.log_day_count >= getvariable('learning_days')
    AND r.read_bytes >= greatest(getvariable('min_ratio') * r.checkpoint_bytes, getvariable('min_bytes'))
