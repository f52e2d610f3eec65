/*
doc = "Reads that succeeded, each once, whichever and however many logs they are in."
grain = ["cluster", "bucket", "request_id", "object_key", "day_ts"]
time = "ts"
lookback = "0d"

[columns]
cluster = { type = "VARCHAR", doc = "as in storage_access" }
bucket = { type = "VARCHAR", doc = "as in storage_access" }
request_id = { type = "VARCHAR", doc = "the store's id, by which rows of several logs are one read" }
object_key = { type = "VARCHAR", doc = "as in storage_access" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
ts = { type = "TIMESTAMP", doc = "earliest time that a log gives" }
received_ts = { type = "TIMESTAMP", doc = "when the first record of it was delivered, as far as known" }
version_id = { type = "VARCHAR", doc = "version; '' where no log names one" }
op_class = { type = "VARCHAR", doc = "read or copy_read" }
is_part = { type = "BOOLEAN", doc = "the operation's name says that a part was copied, not the whole object" }
store_kind = { type = "VARCHAR", doc = "as in storage_access" }
principal = { type = "VARCHAR", doc = "who read; of logs that differ the one that is not anonymous; NULL: no log tells" }
principal_type = { type = "VARCHAR", doc = "of that principal" }
parent_principal = { type = "VARCHAR", doc = "who stands behind" }
session = { type = "VARCHAR", doc = "session" }
job_hint = { type = "VARCHAR", doc = "job id that the session name claims" }
account = { type = "VARCHAR", doc = "account of the principal" }
access_key_id = { type = "VARCHAR", doc = "id of the access key" }
token_hash = { type = "VARCHAR", doc = "what the uses of one signed URL share" }
auth_method = { type = "VARCHAR", doc = "as in storage_access" }
ip = { type = "VARCHAR", doc = "address" }
node = { type = "VARCHAR", doc = "host, where a log names it" }
command = { type = "VARCHAR", doc = "program, where a log names it" }
user_agent = { type = "VARCHAR", doc = "client" }
sent_bytes = { type = "BIGINT", doc = "bytes sent, the largest that a log gives; NULL: no log tells", unit = "bytes" }
object_bytes = { type = "BIGINT", doc = "size of the object", unit = "bytes" }
range_start = { type = "BIGINT", doc = "first byte asked for", unit = "bytes" }
range_end = { type = "BIGINT", doc = "last byte asked for", unit = "bytes" }
total_s = { type = "DOUBLE", doc = "from receipt to the last byte", unit = "s" }
is_cross_account = { type = "BOOLEAN", doc = "as in storage_access" }
copy_bucket = { type = "VARCHAR", doc = "where a copy went" }
copy_key = { type = "VARCHAR", doc = "where a copy went" }
copy_account = { type = "VARCHAR", doc = "whose bucket a copy went to" }
sources = { type = "VARCHAR[]", doc = "logs the read is in" }
record_count = { type = "BIGINT", doc = "their rows", unit = "count" }

[params.pair_s]
default = 2
doc = "s; Google's usage and audit logs share no id: rows of one object and address this close are one read"
*/
WITH reads AS (
    SELECT *, date_trunc('day', ts)::TIMESTAMP AS day_ts
    FROM storage_access
    WHERE op_class IN ('read', 'copy_read')
        -- Logs without HTTP status tell failure by an error.
        AND CASE
            WHEN status IS NOT NULL THEN status BETWEEN 200 AND 299 AND status <> 204
            ELSE error IS NULL
        END
),

audited AS (
    SELECT cluster, bucket, object_key, ip, ts, request_id, principal, principal_type, parent_principal, access_key_id
    FROM reads
    WHERE source = 'gcs_audit'
),

paired AS (
    SELECT
        u.cluster, u.bucket, u.object_key, u.request_id AS usage_id, a.request_id AS audit_id,
        a.principal, a.principal_type, a.parent_principal, a.access_key_id
    FROM reads u
    JOIN audited a
        ON u.source = 'gcs_usage' AND u.cluster = a.cluster AND u.bucket = a.bucket
        AND u.object_key = a.object_key AND u.ip = a.ip
        AND a.ts BETWEEN u.ts - to_seconds(getvariable('pair_s')) AND u.ts + to_seconds(getvariable('pair_s'))
        AND date_trunc('day', a.ts) = u.day_ts
),

-- One name, or none where several principals read the same object at once.
named AS (
    SELECT
        cluster, bucket, object_key, usage_id AS request_id,
        CASE WHEN count(DISTINCT principal) = 1 THEN min(principal) END AS paired_principal,
        CASE WHEN count(DISTINCT principal) = 1 THEN min(principal_type) END AS paired_type,
        CASE WHEN count(DISTINCT principal) = 1 THEN min(parent_principal) END AS paired_parent,
        CASE WHEN count(DISTINCT principal) = 1 THEN min(access_key_id) END AS paired_key_id
    FROM paired
    GROUP BY ALL
),

whole AS (
    SELECT
        r.* REPLACE (
            coalesce(r.principal, n.paired_principal) AS principal,
            coalesce(r.principal_type, n.paired_type) AS principal_type,
            coalesce(r.parent_principal, n.paired_parent) AS parent_principal,
            coalesce(r.access_key_id, n.paired_key_id) AS access_key_id
        ),
        n.paired_principal IS NOT NULL AS is_paired
    FROM reads r
    LEFT JOIN named n USING (cluster, bucket, object_key, request_id)
    WHERE r.source <> 'gcs_audit'
        OR (r.cluster, r.bucket, r.object_key, r.request_id) NOT IN (
            SELECT (p.cluster, p.bucket, p.object_key, p.audit_id)
            FROM paired p
            JOIN named q ON p.cluster = q.cluster AND p.bucket = q.bucket AND p.object_key = q.object_key
                AND p.usage_id = q.request_id AND q.paired_principal IS NOT NULL
        )
),

-- Nearly every read is in one log, once: to carry those through the grouping was most of the work.
repeated AS (
    SELECT cluster, bucket, request_id, object_key, day_ts
    FROM whole
    GROUP BY ALL
    HAVING count(*) > 1
),

merged AS (
    SELECT
        cluster, bucket, request_id, object_key, day_ts,
        min(ts) AS ts,
        min(received_ts) AS received_ts,
        max(version_id) AS version_id,
        max(op_class) AS op_class,
        bool_or(operation LIKE '%PART%' OR operation LIKE '%Part%') AS is_part,
        min(store_kind) AS store_kind,
        coalesce(min(principal) FILTER (principal_type <> 'anonymous'), min(principal)) AS principal,
        coalesce(
            arg_min(principal_type, principal) FILTER (principal_type <> 'anonymous'),
            arg_min(principal_type, principal)
        ) AS principal_type,
        min(parent_principal) AS parent_principal,
        min(session) AS session,
        min(job_hint) AS job_hint,
        min(account) AS account,
        min(access_key_id) AS access_key_id,
        min(token_hash) AS token_hash,
        min(auth_method) AS auth_method,
        min(ip) AS ip,
        min(node) AS node,
        min(command) AS command,
        min(user_agent) AS user_agent,
        max(sent_bytes) AS sent_bytes,
        max(object_bytes) AS object_bytes,
        min(range_start) AS range_start,
        max(range_end) AS range_end,
        max(total_s) AS total_s,
        bool_or(is_cross_account) AS is_cross_account,
        min(copy_bucket) AS copy_bucket,
        min(copy_key) AS copy_key,
        min(copy_account) AS copy_account,
        list_sort(list_distinct(flatten(list(
            CASE WHEN is_paired THEN [source, 'gcs_audit'] ELSE [source] END
        )))) AS sources,
        count(*) AS record_count
    FROM whole
    SEMI JOIN repeated USING (cluster, bucket, request_id, object_key, day_ts)
    GROUP BY ALL
)

SELECT * FROM merged
UNION ALL BY NAME
SELECT
    cluster, bucket, request_id, object_key, day_ts, ts, received_ts, version_id, op_class,
    operation LIKE '%PART%' OR operation LIKE '%Part%' AS is_part,
    store_kind, principal,
    CASE WHEN principal IS NOT NULL THEN principal_type END AS principal_type,
    parent_principal, session, job_hint, account, access_key_id, token_hash, auth_method, ip, node, command, user_agent,
    sent_bytes, object_bytes, range_start, range_end, total_s, is_cross_account, copy_bucket, copy_key, copy_account,
    CASE WHEN is_paired THEN list_sort(list_distinct([source, 'gcs_audit'])) ELSE [source] END AS sources,
    1 AS record_count
FROM whole
ANTI JOIN repeated USING (cluster, bucket, request_id, object_key, day_ts)
