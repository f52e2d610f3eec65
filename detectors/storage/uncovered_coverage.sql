/*
title = "A checkpoint is read without a job that needs it"
domain = "security"
severity = "medium"
attack = ["T1530", "T1567", "T1537", "AML.T0035", "AML.T0025"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["manifest_object", "stored_object"]
flags = "One principal reads, within a UTC day and with no running job that covers the reads, at least 8 % of a checkpoint's bytes (and 1 GB): high from a quarter, critical from half. Bytes, not calls: whole shards and 8 MiB parts count the same. `lower` and `upper` bound the share of the checkpoint read so."
why = "Weights have a known size. What share of it a principal has read needs no training period, and the scheduler says whether a job needed it."
looks_like = "Backup, replication, scrubbing and format conversion that run outside the scheduler; a person who loads a model on a login node; a job whose user name is not the name of the role it reads with."
misses = "Theft inside a running job of the same user, or under a session name that claims somebody's running job when the role is no scheduler user. Reads over several principals or days below 8 % each (distributed_coverage, cumulative_coverage look for those). Reads split by midnight count for each day alone. Copies on file systems, node caches and snapshots leave no line in this log, and log delivery is best effort: no line is no proof. Reads of objects that no manifest, listing or learnt layout names with a size are not counted."
todo = "See who holds the session and from which address; ask the owner of the checkpoint. If nobody can explain it: revoke the session (deny by token issue time) or disable the key, deny the principal on the prefix, keep the log lines (`file_id`, `line_no`), and look for the same address, key and client on other checkpoints. Do not kill a training job blindly."

[params.high_ratio]
default = 0.25
doc = "ratio from which the finding is high; coverage levels 10, 25, 50 % within 24 h"

[params.critical_ratio]
default = 0.50
doc = "ratio from which the finding is critical"
*/
SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts) AS subject,
    least(1.0, (uncovered_lower_ratio + uncovered_upper_ratio) / 2) AS score,
    CASE
        WHEN uncovered_upper_ratio >= getvariable('critical_ratio') THEN 'critical'
        WHEN uncovered_upper_ratio >= getvariable('high_ratio') THEN 'high'
        ELSE 'medium'
    END AS severity,
    first_uncovered_ts AS start_ts,
    last_uncovered_ts AS end_ts,
    crossed_ts AS detected_at,
    uncovered_lower_ratio AS lower,
    uncovered_upper_ratio AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', 'share of the checkpoint read without a covering job in the UTC day',
        'family', family,
        'sensitivity', sensitivity,
        'checkpoint_bytes', checkpoint_bytes,
        'uncovered_lower_bytes', uncovered_lower_bytes,
        'uncovered_upper_bytes', uncovered_upper_bytes,
        'covered_upper_bytes', covered_upper_bytes,
        'objects_read', read_object_count,
        'objects', object_count,
        'objects_without_size', unsized_object_count,
        'uncovered_requests', uncovered_request_count,
        'requests_of_unknown_size', unknown_byte_count,
        'upper_ratio_when_detected', crossed_upper_ratio,
        'user_agents', user_agents,
        'covering_jobs', []
    ) AS evidence
FROM checkpoint_read_day
WHERE crossed_ts IS NOT NULL
