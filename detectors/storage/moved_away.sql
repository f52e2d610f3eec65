/*
title = "Objects of a checkpoint leave the place where they are protected"
domain = "security"
severity = "medium"
attack = ["T1074", "T1036", "T1562", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "7d"
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
A principal whose session names no job moves a twentieth of a checkpoint and 1 GB within a day: an object is deleted, or
renamed, and the same principal has copied it, or written one of the same size, in another bucket or top folder in the 7
days before; high where the new place is another bucket. Also, from a fifth of its objects on, tags taken off a
checkpoint's objects (access by tags no longer holds).
"""
why = """
Policies, logging and canaries hold for a bucket and a prefix. What is moved out of them first is read later without a
trace.
"""
looks_like = """
Clean-up and re-filing by hand; an archiving service: name it in `allowed_principals`. Steps renamed within their top
folder do not count.
"""
misses = """
Copies whose original stays (foreign_copy, derived_artefact); moves over more than a week; a change of the content's size
on the way; tags overwritten with fewer; renames by a log that gives one of the two names only count where it is the old
one.
"""
todo = """
Hold the objects where they are now (deny reads, object lock), see who reads there, restore them; ask who moved them.
"""

[params.min_ratio]
default = 0.05
doc = "ratio of the checkpoint's bytes that are moved"

[params.min_bytes]
default = 1000000000
doc = "bytes moved as well"

[params.min_tag_ratio]
default = 0.20
doc = "ratio of the checkpoint's objects that lose their tags"

[params.allowed_principals]
default = ""
doc = "principals, separated by commas, that move checkpoints for their work"
*/
WITH objects AS (
    SELECT
        cluster, bucket, object_key,
        min(checkpoint) AS checkpoint,
        min(family) AS family,
        max(object_bytes) AS object_bytes,
        any_value(checkpoint_bytes) AS checkpoint_bytes,
        any_value(object_count) AS object_count,
        split_part(object_key, '/', 1) AS top_folder
    FROM (
        SELECT
            *,
            sum(object_bytes) OVER (PARTITION BY cluster, checkpoint) AS checkpoint_bytes,
            count(*) OVER (PARTITION BY cluster, checkpoint) AS object_count
        FROM checkpoint_object
    )
    GROUP BY cluster, bucket, object_key
),

acts AS (
    SELECT
        a.cluster, coalesce(a.principal, 'unknown') AS principal, a.bucket, a.object_key, a.ts,
        date_trunc('day', a.ts)::TIMESTAMP AS day_ts, a.ip, o.checkpoint, o.family, o.object_bytes, o.checkpoint_bytes,
        o.object_count, o.top_folder,
        CASE
            WHEN regexp_matches(a.operation, '(?i)delete.*tagging') THEN 'untagged'
            WHEN regexp_matches(a.operation, '(?i)rename|RENME') THEN 'renamed'
            ELSE 'deleted'
        END AS act
    FROM storage_access a
    JOIN objects o USING (cluster, bucket, object_key)
    WHERE (a.op_class = 'delete' OR regexp_matches(a.operation, '(?i)delete.*tagging|rename|RENME')) AND a.job_hint IS NULL
        AND CASE WHEN a.status IS NOT NULL THEN a.status BETWEEN 200 AND 299 ELSE a.error IS NULL END
        AND NOT list_contains(string_split(getvariable('allowed_principals'), ','), coalesce(a.principal, 'unknown'))
),

places AS (
    SELECT
        cluster, coalesce(principal, 'unknown') AS principal, ts AS written_ts, bucket AS old_bucket, object_key AS old_key,
        NULL::BIGINT AS object_bytes, copy_bucket AS bucket, copy_key AS object_key
    FROM storage_read
    WHERE op_class = 'copy_read' AND copy_bucket IS NOT NULL AND copy_key IS NOT NULL
    UNION ALL
    SELECT cluster, coalesce(principal, 'unknown'), last_ts, NULL, NULL, object_bytes, bucket, object_key
    FROM object_written_day
    WHERE object_bytes >= 1000000
),

-- By the copy that names the object, or by a write of exactly its size; the latest before it went.
found AS (
    SELECT a.*, p.bucket AS new_bucket, p.object_key AS new_key, p.written_ts
    FROM acts a
    JOIN places p
        ON a.cluster = p.cluster AND a.principal = p.principal AND a.bucket = p.old_bucket AND a.object_key = p.old_key
    UNION ALL
    SELECT a.*, p.bucket, p.object_key, p.written_ts
    FROM acts a
    JOIN places p ON a.cluster = p.cluster AND a.principal = p.principal AND a.object_bytes = p.object_bytes
),

moved AS (
    SELECT *
    FROM found
    WHERE act = 'deleted' AND written_ts <= ts AND written_ts > ts - INTERVAL 7 DAY
        AND (new_bucket <> bucket OR split_part(new_key, '/', 1) <> top_folder)
    UNION ALL
    SELECT *, NULL, NULL, NULL FROM acts WHERE act IN ('renamed', 'untagged')
),

each_object AS (
    SELECT
        cluster, principal, checkpoint, day_ts, bucket, object_key, act = 'untagged' AS is_tag,
        any_value(family) AS family,
        any_value(object_bytes) AS object_bytes,
        any_value(checkpoint_bytes) AS checkpoint_bytes,
        any_value(object_count) AS object_count,
        min(coalesce(written_ts, ts)) AS start_ts,
        max(ts) AS end_ts,
        bool_or(new_bucket <> bucket) AS is_elsewhere,
        max(concat(new_bucket, '/', new_key)) FILTER (new_bucket IS NOT NULL) AS new_place,
        list(DISTINCT ip) FILTER (ip IS NOT NULL) AS ips
    FROM moved
    GROUP BY ALL
),

sets AS (
    SELECT
        cluster, principal, checkpoint, day_ts, is_tag,
        min(family) AS family,
        count(*) AS moved_count,
        max(object_count) AS object_count,
        coalesce(sum(object_bytes), 0) AS moved_bytes,
        max(checkpoint_bytes) AS checkpoint_bytes,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        coalesce(bool_or(is_elsewhere), false) AS is_elsewhere,
        min(new_place) AS new_place,
        list_sort(list(DISTINCT bucket)) AS buckets,
        list_sort(list_distinct(flatten(list(coalesce(ips, []))))) [1:20] AS ips
    FROM each_object
    GROUP BY ALL
)

SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts, if(is_tag, 'tags', 'moved')) AS subject,
    0.5 AS score,
    if(is_elsewhere, 'high', 'medium') AS severity,
    start_ts, end_ts,
    end_ts AS detected_at,
    if(is_tag, moved_count / object_count, moved_bytes / checkpoint_bytes) AS lower,
    if(is_tag, moved_count / object_count, moved_bytes / checkpoint_bytes) AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', if(is_tag, 'share of the objects that lost their tags in the UTC day',
            'share of the checkpoint moved away in the UTC day'),
        'family', family,
        'objects', moved_count,
        'first_new_place', new_place
    ) AS evidence
FROM sets
WHERE if(
    is_tag,
    moved_count >= getvariable('min_tag_ratio') * object_count,
    moved_bytes >= greatest(getvariable('min_ratio') * checkpoint_bytes, getvariable('min_bytes'))
)
