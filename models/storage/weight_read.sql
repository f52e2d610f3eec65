/*
doc = "Reads of checkpoints' objects, each once, with the job that covers it and the bytes it took of the object, at least and at most."
grain = ["cluster", "checkpoint", "bucket", "object_key", "version_id", "request_id", "day_ts"]
time = "ts"
lookback = "1h"

[columns]
cluster = { type = "VARCHAR", doc = "checkpoint_object.cluster; reads are matched within it, or where one side's cluster is `default`" }
checkpoint = { type = "VARCHAR", doc = "checkpoint_object.checkpoint" }
bucket = { type = "VARCHAR", doc = "bucket of the object" }
object_key = { type = "VARCHAR", doc = "key of the object" }
version_id = { type = "VARCHAR", doc = "version of the object that the checkpoint lists" }
request_id = { type = "VARCHAR", doc = "storage_read.request_id" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
ts = { type = "TIMESTAMP", doc = "storage_read.ts" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
sensitivity = { type = "VARCHAR", doc = "as the manifest states it" }
principal = { type = "VARCHAR", doc = "who read; `unknown` where no log tells" }
session = { type = "VARCHAR", doc = "storage_read.session" }
access_key_id = { type = "VARCHAR", doc = "storage_read.access_key_id" }
token_hash = { type = "VARCHAR", doc = "storage_read.token_hash" }
auth_method = { type = "VARCHAR", doc = "storage_read.auth_method" }
ip = { type = "VARCHAR", doc = "storage_read.ip" }
node = { type = "VARCHAR", doc = "storage_read.node" }
user_agent = { type = "VARCHAR", doc = "storage_read.user_agent" }
op_class = { type = "VARCHAR", doc = "read or copy_read" }
copy_bucket = { type = "VARCHAR", doc = "storage_read.copy_bucket" }
copy_account = { type = "VARCHAR", doc = "storage_read.copy_account" }
is_cross_account = { type = "BOOLEAN", doc = "storage_read.is_cross_account" }
covering_job_id = { type = "VARCHAR", doc = "first job that covers the read: it ran then for this user (whose session names some job, where the site names jobs in sessions), or the session of a role that is no user's names it; NULL: none" }
object_bytes = { type = "BIGINT", doc = "size of the object", unit = "bytes" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint's objects whose size is known", unit = "bytes" }
object_count = { type = "BIGINT", doc = "objects of the checkpoint whose size is known", unit = "count" }
unsized_object_count = { type = "BIGINT", doc = "objects whose size nothing gives; their reads are no rows", unit = "count" }
sent_bytes = { type = "BIGINT", doc = "bytes sent; NULL: the log does not tell", unit = "bytes" }
least_bytes = { type = "BIGINT", doc = "taken of this object, at least", unit = "bytes" }
most_bytes = { type = "BIGINT", doc = "taken of this object, at most", unit = "bytes" }

[params.grace_before_s]
default = 900
doc = "s; a job covers reads from this long before its start (staging by prolog), never from before its submission"

[params.grace_after_s]
default = 1800
most = 3600
doc = "s; and until this long after its end (epilog, late uploads)"

[params.convention_ratio]
default = 0.80
doc = "ratio of a day's reading principals, five or more, whose sessions name jobs, from which the site is taken to name jobs in sessions: a session that names none is then not covered by a job of its user that happens to run"
*/
WITH objects AS (
    SELECT
        cluster, checkpoint, bucket, object_key, version_id, object_bytes,
        first_value(family) OVER by_key AS family,
        first_value(sensitivity) OVER by_key AS sensitivity,
        sum(object_bytes) OVER whole AS checkpoint_bytes,
        count(object_bytes) OVER whole AS object_count,
        count(*) OVER whole - count(object_bytes) OVER whole AS unsized_object_count,
        min(version_id) OVER by_name <> max(version_id) OVER by_name AS has_versions
    FROM checkpoint_object
    WINDOW
        by_name AS (PARTITION BY bucket, object_key),
        whole AS (PARTITION BY cluster, checkpoint),
        by_key AS (PARTITION BY cluster, checkpoint ORDER BY bucket, object_key, version_id)
),

-- A `+` in a logged key may stand for itself or for a space: both spellings are looked up.
spelt AS (
    SELECT
        * REPLACE (coalesce(principal, 'unknown') AS principal),
        unnest(list_distinct([object_key, replace(object_key, '+', ' ')])) AS spelling
    FROM storage_read
),

matched AS (
    SELECT
        o.cluster, o.checkpoint, o.bucket, o.object_key, o.version_id, r.request_id, r.day_ts, r.ts,
        o.family, o.sensitivity, r.principal, r.session, r.access_key_id, r.token_hash, r.auth_method, r.ip, r.node,
        r.user_agent, r.op_class, r.copy_bucket, r.copy_account, r.is_cross_account, r.job_hint, o.object_bytes, o.checkpoint_bytes, o.object_count,
        o.unsized_object_count, r.sent_bytes,
        -- One COPY request takes the whole object; a part of unknown length may take all or nothing.
        -- A read that names no version took one of several: for each it may be nothing.
        CASE
            WHEN o.has_versions AND r.version_id = '' THEN 0
            WHEN r.sent_bytes IS NOT NULL THEN least(r.sent_bytes, o.object_bytes)
            WHEN r.op_class = 'copy_read' AND NOT coalesce(r.is_part, false) THEN o.object_bytes
            ELSE 0
        END AS least_bytes,
        least(coalesce(r.sent_bytes, o.object_bytes), o.object_bytes) AS most_bytes,
        regexp_extract(r.principal, '[^/:]+$') AS user_name
    FROM spelt r
    JOIN objects o
        ON r.bucket = o.bucket AND r.spelling = o.object_key
        AND (o.version_id = '' OR r.version_id = '' OR o.version_id = r.version_id)
        AND (o.cluster = r.cluster OR 'default' IN (o.cluster, r.cluster))
    WHERE o.object_bytes IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY o.cluster, o.checkpoint, o.bucket, o.object_key, o.version_id, r.request_id, r.day_ts
        ORDER BY r.ts, r.principal, r.sent_bytes
    ) = 1
),

users AS (SELECT DISTINCT principal AS user_name FROM scheduler_user),

-- The session name is chosen by the caller: it counts only for a role that is no other user's name.
running AS (
    SELECT
        job_id, raw_job_id, principal AS user_name,
        greatest(start_ts - to_seconds(getvariable('grace_before_s')), attempt_ts) AS from_ts,
        coalesce(end_ts, observed_ts, start_ts) + to_seconds(getvariable('grace_after_s')) AS until_ts
    FROM job_attempt
    WHERE start_ts IS NOT NULL
),

named AS (
    SELECT job_id, job_id AS job_hint, from_ts, until_ts FROM running
    UNION
    SELECT job_id, raw_job_id, from_ts, until_ts FROM running
),

claims AS (
    SELECT cluster, day_ts, principal, count(job_hint) > 0 AS claims_a_job
    FROM matched
    GROUP BY ALL
),

conventions AS (
    SELECT
        cluster, day_ts,
        count(*) FILTER (claims_a_job) >= greatest(5, getvariable('convention_ratio') * count(*)) AS names_jobs
    FROM claims
    GROUP BY ALL
),

covers AS (
    SELECT
        r.request_id, r.cluster, r.checkpoint, r.object_key, r.ts, j.job_id,
        coalesce(r.job_hint IN (j.job_id, j.raw_job_id), false) AS is_named
    FROM matched r
    JOIN running j ON r.user_name = j.user_name AND r.ts >= j.from_ts AND r.ts < j.until_ts
    JOIN conventions c ON r.cluster = c.cluster AND r.day_ts = c.day_ts
    WHERE r.job_hint IS NOT NULL OR NOT c.names_jobs
    UNION
    SELECT r.request_id, r.cluster, r.checkpoint, r.object_key, r.ts, j.job_id, true
    FROM matched r
    JOIN named j ON r.job_hint = j.job_hint AND r.ts >= j.from_ts AND r.ts < j.until_ts
    ANTI JOIN users u ON r.user_name = u.user_name
),

covered AS (
    SELECT
        request_id, cluster, checkpoint, object_key, ts,
        -- The job that the session names, where it is one of them.
        coalesce(min(job_id) FILTER (is_named), min(job_id)) AS covering_job_id
    FROM covers
    GROUP BY ALL
)

SELECT
    r.cluster, r.checkpoint, r.bucket, r.object_key, r.version_id, r.request_id, r.day_ts, r.ts, r.family,
    r.sensitivity, r.principal, r.session, r.access_key_id, r.token_hash, r.auth_method, r.ip, r.node, r.user_agent,
    r.op_class, r.copy_bucket, r.copy_account, r.is_cross_account, c.covering_job_id, r.object_bytes, r.checkpoint_bytes::BIGINT AS checkpoint_bytes, r.object_count,
    r.unsized_object_count, r.sent_bytes, r.least_bytes, r.most_bytes
FROM matched r
LEFT JOIN covered c USING (request_id, cluster, checkpoint, object_key, ts)
