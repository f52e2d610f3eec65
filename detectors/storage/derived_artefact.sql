/*
title = "Something the size of a model is written soon after the model was read"
domain = "security"
severity = "medium"
attack = ["T1074", "T1560", "T1036", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "7d"
optional = ["manifest_object", "stored_object"]
flags = """
A principal that read a fifth of a checkpoint without a covering job within 7 days writes, in one folder and day,
objects that together have, within 3 %, the checkpoint's size or a half, a quarter or a seventh of it (8 bit, 4 bit,
weights out of a training state), and that belong to no job's export.
"""
why = """
Quantised, merged or packed weights leave as a harmless-looking file; their size gives them away.
"""
looks_like = """
Exports made by hand on a login node.
"""
misses = """
Sizes by chance elsewhere; compression of another factor; a writer other than the reader; writes to disks and other
accounts.
"""
todo = """
Look at what was written and where to; hold the object; ask its writer.
"""

[params.min_ratio]
default = 0.20
doc = "ratio of the checkpoint that the writer has read"

[params.min_bytes]
default = 1000000000
doc = "bytes written"
*/
WITH written AS (
    SELECT
        cluster, principal, day_ts, bucket,
        regexp_extract(object_key, '^(.*)/[^/]*$', 1) AS folder,
        sum(object_bytes)::DOUBLE AS written_bytes,
        count(*) AS object_count,
        min(first_ts) AS start_ts,
        max(last_ts) AS end_ts
    FROM object_written_day
    WHERE principal IS NOT NULL AND job_hint IS NULL
    GROUP BY ALL
),

sizes AS (SELECT unnest([1.0, 1 / 2, 1 / 4, 1 / 7]) AS factor)

SELECT
    concat_ws('|', w.cluster, w.principal, w.bucket, w.folder, w.day_ts) AS subject,
    0.5 AS score,
    min(w.start_ts) AS start_ts,
    max(w.end_ts) AS end_ts,
    max(w.end_ts) AS detected_at,
    max(w.written_bytes) AS lower,
    max(w.written_bytes) AS upper,
    [w.cluster] AS cluster,
    [w.principal] AS principal,
    list_sort(list(DISTINCT c.checkpoint)) AS checkpoint,
    [w.bucket] AS bucket,
    json_object(
        'quantity', 'bytes written in the folder that day',
        'folder', w.folder,
        'objects', max(w.object_count),
        'times_the_size_of', min(s.factor),
        'share_read_7d', max(c.upper_7d_ratio)
    ) AS evidence
FROM written w
JOIN coverage_day c
    ON w.cluster = c.cluster AND w.principal = c.principal AND c.upper_7d_ratio >= getvariable('min_ratio')
    AND c.day_ts <= w.day_ts AND c.day_ts >= w.day_ts - INTERVAL 7 DAY
JOIN sizes s ON w.written_bytes BETWEEN 0.97 * s.factor * c.checkpoint_bytes AND 1.03 * s.factor * c.checkpoint_bytes
WHERE w.written_bytes >= getvariable('min_bytes')
GROUP BY w.cluster, w.principal, w.bucket, w.folder, w.day_ts
