/*
doc = "How much of a checkpoint each principal read in a day, apart for reads with and without a job that covers them, each as lower and upper bound."
grain = ["cluster", "principal", "checkpoint", "day_ts"]
time = "day_ts"
lookback = "1h"

[columns]
cluster = { type = "VARCHAR", doc = "manifest_object.cluster; reads are matched within it, or where one side's cluster is `default`" }
principal = { type = "VARCHAR", doc = "who read: storage_access.principal" }
checkpoint = { type = "VARCHAR", doc = "manifest_object.checkpoint" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
sensitivity = { type = "VARCHAR", doc = "as the manifest states it" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint's objects whose size is known; the others count nowhere", unit = "bytes" }
object_count = { type = "BIGINT", doc = "objects of the checkpoint whose size is known", unit = "count" }
unsized_object_count = { type = "BIGINT", doc = "objects whose size the manifest does not give", unit = "count" }
read_object_count = { type = "BIGINT", doc = "objects read, with or without a job", unit = "count" }
request_count = { type = "BIGINT", doc = "successful reads", unit = "count" }
uncovered_request_count = { type = "BIGINT", doc = "of these without a covering job", unit = "count" }
unknown_byte_count = { type = "BIGINT", doc = "reads without a covering job whose size the log does not give", unit = "count" }
uncovered_lower_bytes = { type = "BIGINT", doc = "read without a covering job, at least: per object the largest single answer, or the whole object where it was copied at once", unit = "bytes" }
uncovered_upper_bytes = { type = "BIGINT", doc = "read without a covering job, at most: per object the sum of answers, capped at its size; the size where an answer's is unknown", unit = "bytes" }
covered_upper_bytes = { type = "BIGINT", doc = "read under a covering job, at most", unit = "bytes" }
uncovered_lower_ratio = { type = "DOUBLE", doc = "uncovered_lower_bytes / checkpoint_bytes", unit = "ratio" }
uncovered_upper_ratio = { type = "DOUBLE", doc = "uncovered_upper_bytes / checkpoint_bytes", unit = "ratio" }
crossed_ts = { type = "TIMESTAMP", doc = "when the upper bound of uncovered reads passed min_ratio and min_bytes; NULL if it did not" }
crossed_upper_ratio = { type = "DOUBLE", doc = "upper bound at crossed_ts", unit = "ratio" }
first_uncovered_ts = { type = "TIMESTAMP", doc = "first read without a covering job" }
last_uncovered_ts = { type = "TIMESTAMP", doc = "last read without a covering job" }
buckets = { type = "VARCHAR[]", doc = "buckets of the reads without a covering job" }
ips = { type = "VARCHAR[]", doc = "addresses they came from, at most 20" }
user_agents = { type = "VARCHAR[]", doc = "clients they came from, at most 20" }

[params.min_ratio]
default = 0.10
doc = "ratio of the checkpoint at which crossed_ts is set; the first alarm level proposed for coverage in 24 h"

[params.min_bytes]
default = 1000000000
doc = "bytes that must have been read as well, so that a tenth of a tiny model is no alarm; a checkpoint smaller than that must be read whole"

[params.grace_before_s]
default = 900
doc = "s; a job covers reads from this long before its start (staging by prolog), never from before its submission"

[params.grace_after_s]
default = 1800
most = 3600
doc = "s; and until this long after its end (epilog, late uploads)"
*/
WITH manifest AS (
    SELECT
        cluster, checkpoint, bucket, object_key, version_id, object_bytes,
        first_value(family) OVER by_key AS family,
        first_value(sensitivity) OVER by_key AS sensitivity,
        sum(object_bytes) OVER whole AS checkpoint_bytes,
        count(object_bytes) OVER whole AS object_count,
        count(*) OVER whole - count(object_bytes) OVER whole AS unsized_object_count,
        min(version_id) OVER by_name <> max(version_id) OVER by_name AS has_versions
    FROM manifest_object
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
    FROM storage_access
    WHERE op_class IN ('read', 'copy_read') AND status BETWEEN 200 AND 299 AND status <> 204
),

matched AS (
    SELECT
        a.ts, a.principal, a.job_hint, a.bucket, a.ip, a.user_agent, a.request_id, a.sent_bytes,
        m.cluster, m.checkpoint, m.family, m.sensitivity, m.object_key, m.version_id, m.object_bytes,
        m.checkpoint_bytes, m.object_count, m.unsized_object_count,
        -- One COPY request takes the whole object; a part of unknown length may take all or nothing.
        -- A read that names no version took one of several: for each it may be nothing.
        CASE
            WHEN m.has_versions AND a.version_id = '' THEN 0
            WHEN a.sent_bytes IS NOT NULL THEN least(a.sent_bytes, m.object_bytes)
            WHEN a.op_class = 'copy_read' AND a.operation NOT LIKE '%PART%' THEN m.object_bytes
            ELSE 0
        END AS least_bytes,
        CASE
            WHEN a.sent_bytes IS NOT NULL THEN least(a.sent_bytes, m.object_bytes)
            ELSE m.object_bytes
        END AS most_bytes,
        regexp_extract(a.principal, '[^/:]+$') AS user_name
    FROM spelt a
    JOIN manifest m
        ON a.bucket = m.bucket AND a.spelling = m.object_key
        AND (m.version_id = '' OR a.version_id = '' OR m.version_id = a.version_id)
        AND (m.cluster = a.cluster OR 'default' IN (m.cluster, a.cluster))
    WHERE m.object_bytes IS NOT NULL
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
    SELECT job_id AS job_hint, from_ts, until_ts FROM running
    UNION
    SELECT raw_job_id, from_ts, until_ts FROM running
),

covered AS (
    SELECT r.request_id, r.cluster, r.checkpoint, r.object_key, r.ts
    FROM matched r
    JOIN running j ON r.user_name = j.user_name AND r.ts >= j.from_ts AND r.ts < j.until_ts
    UNION
    SELECT r.request_id, r.cluster, r.checkpoint, r.object_key, r.ts
    FROM matched r
    JOIN named j ON r.job_hint = j.job_hint AND r.ts >= j.from_ts AND r.ts < j.until_ts
    ANTI JOIN users u ON r.user_name = u.user_name
),

reads AS (
    SELECT r.*, c.request_id IS NULL AS uncovered, date_trunc('day', r.ts)::TIMESTAMP AS day_ts
    FROM matched r
    LEFT JOIN covered c USING (request_id, cluster, checkpoint, object_key, ts)
),

-- Running upper bound per object, so that the time of crossing is known to the request.
running_object AS (
    SELECT
        *,
        least(
            object_bytes,
            sum(CASE WHEN uncovered THEN most_bytes ELSE 0 END) OVER object_so_far
        ) AS object_upper_bytes
    FROM reads
    WINDOW object_so_far AS (
        PARTITION BY cluster, principal, checkpoint, day_ts, bucket, object_key, version_id
        ORDER BY ts, request_id ROWS UNBOUNDED PRECEDING
    )
),

steps AS (
    SELECT
        *,
        object_upper_bytes
        - lag(object_upper_bytes, 1, 0) OVER (
            PARTITION BY cluster, principal, checkpoint, day_ts, bucket, object_key, version_id
            ORDER BY ts, request_id
        ) AS gained_bytes
    FROM running_object
),

so_far AS (
    SELECT
        *,
        sum(gained_bytes) OVER (
            PARTITION BY cluster, principal, checkpoint, day_ts
            ORDER BY ts, request_id, bucket, object_key, version_id
            ROWS UNBOUNDED PRECEDING
        ) / checkpoint_bytes AS upper_ratio_so_far
    FROM steps
),

crossings AS (
    SELECT
        cluster, principal, checkpoint, day_ts,
        min(ts) AS crossed_ts,
        arg_min(upper_ratio_so_far, ts) AS crossed_upper_ratio
    FROM so_far
    WHERE upper_ratio_so_far >= greatest(
        getvariable('min_ratio'), least(1.0, getvariable('min_bytes') / checkpoint_bytes)
    )
    GROUP BY ALL
),

objects AS (
    SELECT
        cluster, principal, checkpoint, day_ts, bucket, object_key, version_id,
        any_value(family) AS family,
        any_value(sensitivity) AS sensitivity,
        any_value(checkpoint_bytes) AS checkpoint_bytes,
        any_value(object_count) AS object_count,
        any_value(unsized_object_count) AS unsized_object_count,
        count(*) AS request_count,
        count(*) FILTER (uncovered) AS uncovered_request_count,
        count(*) FILTER (uncovered AND sent_bytes IS NULL) AS unknown_byte_count,
        coalesce(max(least_bytes) FILTER (uncovered), 0) AS uncovered_lower_bytes,
        least(coalesce(sum(most_bytes) FILTER (uncovered), 0), any_value(object_bytes)) AS uncovered_upper_bytes,
        least(coalesce(sum(most_bytes) FILTER (NOT uncovered), 0), any_value(object_bytes)) AS covered_upper_bytes,
        min(ts) FILTER (uncovered) AS first_uncovered_ts,
        max(ts) FILTER (uncovered) AS last_uncovered_ts,
        bool_or(uncovered) AS has_uncovered,
        list(DISTINCT ip) FILTER (uncovered AND ip IS NOT NULL) AS ips,
        list(DISTINCT user_agent) FILTER (uncovered AND user_agent IS NOT NULL) AS user_agents
    FROM reads
    GROUP BY ALL
),

days AS (
    SELECT
        cluster, principal, checkpoint, day_ts,
        any_value(family) AS family,
        any_value(sensitivity) AS sensitivity,
        any_value(checkpoint_bytes)::BIGINT AS checkpoint_bytes,
        any_value(object_count) AS object_count,
        any_value(unsized_object_count) AS unsized_object_count,
        count(*) AS read_object_count,
        sum(request_count)::BIGINT AS request_count,
        sum(uncovered_request_count)::BIGINT AS uncovered_request_count,
        sum(unknown_byte_count)::BIGINT AS unknown_byte_count,
        sum(uncovered_lower_bytes)::BIGINT AS uncovered_lower_bytes,
        sum(uncovered_upper_bytes)::BIGINT AS uncovered_upper_bytes,
        sum(covered_upper_bytes)::BIGINT AS covered_upper_bytes,
        min(first_uncovered_ts) AS first_uncovered_ts,
        max(last_uncovered_ts) AS last_uncovered_ts,
        coalesce(list_sort(list(DISTINCT bucket) FILTER (has_uncovered)), []) AS buckets,
        list_sort(list_distinct(flatten(list(coalesce(ips, []))))) [1:20] AS ips,
        list_sort(list_distinct(flatten(list(coalesce(user_agents, []))))) [1:20] AS user_agents
    FROM objects
    GROUP BY ALL
)

SELECT
    cluster, principal, checkpoint, day_ts, family, sensitivity, checkpoint_bytes, object_count,
    unsized_object_count,
    read_object_count, request_count, uncovered_request_count, unknown_byte_count,
    uncovered_lower_bytes, uncovered_upper_bytes, covered_upper_bytes,
    uncovered_lower_bytes / checkpoint_bytes AS uncovered_lower_ratio,
    uncovered_upper_bytes / checkpoint_bytes AS uncovered_upper_ratio,
    crossed_ts, crossed_upper_ratio, first_uncovered_ts, last_uncovered_ts,
    buckets, ips, user_agents
FROM days
LEFT JOIN crossings USING (cluster, principal, checkpoint, day_ts)
