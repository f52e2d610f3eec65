/*
title = "What was read of a checkpoint is sent outside"
domain = "security"
severity = "high"
attack = ["T1041", "T1567", "T1048", "T1195", "AML.T0025", "AML.T0010"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "15d"
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
An inside address reads a checkpoint, in a job or not, and within 24 hours sends to one outside address that nobody
in the cluster sent anything to in the 14 days before at least 30 % of the bytes it read (of each object at most its
size) and 1 GB. Critical from half the checkpoint.
"""
why = """
Inside a lawful job every read is covered, so only what leaves the node tells. It is the one detector for supply-
chain code in a job.
"""
looks_like = """
The first sync to another cloud; a new artefact server outside. Uploads of logs and metrics are far smaller.
"""
misses = """
Blind without flow logs. Readers behind an address that flow logs do not show; sending to a place in use already,
from another node, after a day, or compressed below 30 %; traffic to the provider's own services, whose address says
nothing about whose bucket it is.
"""
todo = """
Deny the node's egress (network policy, security group) rather than kill the job; keep the node for its image;
revoke the session or key, deny the principal on the prefix, keep the log lines, and look for the same address, key
and client on other checkpoints. Do not kill a training job blindly.
"""

[params.min_ratio]
default = 0.30
doc = "ratio of the bytes read that must be sent"

[params.min_bytes]
default = 1000000000
doc = "bytes sent as well"

[params.approved]
default = ""
doc = "outside addresses, separated by commas, that data may be sent to"
*/
WITH objects AS (
    SELECT
        cluster, ip, checkpoint, bucket, object_key, day_ts,
        least(sum(most_bytes), max(object_bytes)) AS read_bytes,
        max(checkpoint_bytes) AS checkpoint_bytes,
        min(ts) AS first_ts,
        list(DISTINCT principal) AS principals,
        list(DISTINCT covering_job_id) FILTER (covering_job_id IS NOT NULL) AS jobs
    FROM weight_read
    WHERE ip IS NOT NULL
    GROUP BY ALL
),

reads AS (
    SELECT
        cluster, ip, checkpoint, day_ts,
        sum(read_bytes)::DOUBLE AS read_bytes,
        max(checkpoint_bytes) AS checkpoint_bytes,
        min(first_ts) AS first_ts,
        list_sort(list_distinct(flatten(list(principals)))) [1:20] AS principals,
        list_sort(list_distinct(flatten(list(coalesce(jobs, []))))) [1:20] AS jobs,
        list_sort(list(DISTINCT bucket)) AS buckets
    FROM objects
    GROUP BY ALL
),

sends AS (
    SELECT
        *,
        min(hour_ts) OVER (
            PARTITION BY cluster, dst_ip ORDER BY hour_ts
            RANGE BETWEEN INTERVAL 14 DAY PRECEDING AND CURRENT ROW
        ) AS known_since
    FROM egress_hour
    WHERE sent_bytes > 0
),

matched AS (
    SELECT
        r.*, s.dst_ip, s.last_ts,
        min(s.known_since) OVER pair AS known_since,
        min(s.first_ts) OVER pair AS sent_from_ts,
        sum(s.sent_bytes) OVER (
            PARTITION BY r.cluster, r.ip, r.checkpoint, r.day_ts, s.dst_ip ORDER BY s.hour_ts
        ) AS sent_bytes
    FROM reads r
    JOIN sends s
        ON r.cluster = s.cluster AND r.ip = s.src_ip
        AND s.last_ts >= r.first_ts AND s.first_ts <= r.first_ts + INTERVAL 24 HOUR
    WINDOW pair AS (PARTITION BY r.cluster, r.ip, r.checkpoint, r.day_ts, s.dst_ip)
),

found AS (
    SELECT
        cluster, ip, checkpoint, day_ts,
        arg_min(dst_ip, last_ts) AS dst_ip,
        min(last_ts) AS detected_at,
        min(sent_from_ts) AS start_ts,
        any_value(read_bytes) AS read_bytes,
        any_value(checkpoint_bytes) AS checkpoint_bytes,
        arg_min(sent_bytes, last_ts) AS sent_bytes,
        any_value(principals) AS principals,
        any_value(jobs) AS jobs,
        any_value(buckets) AS buckets
    FROM matched
    WHERE sent_bytes >= greatest(getvariable('min_ratio') * read_bytes, getvariable('min_bytes'))
        AND known_since >= date_trunc('hour', first_ts)
        AND NOT list_contains(string_split(getvariable('approved'), ','), dst_ip)
    GROUP BY ALL
),

-- One node serves many jobs: what was sent is laid to the largest read before it, not to all.
laid AS (
    SELECT *
    FROM found
    QUALIFY row_number() OVER (
        PARTITION BY cluster, ip, dst_ip, date_trunc('day', detected_at)
        ORDER BY read_bytes DESC, checkpoint, day_ts DESC
    ) = 1
)

SELECT
    concat_ws('|', cluster, ip, checkpoint, day_ts) AS subject,
    least(1.0, 0.5 + sent_bytes / checkpoint_bytes / 2) AS score,
    if(sent_bytes >= 0.5 * checkpoint_bytes, 'critical', 'high') AS severity,
    least(start_ts, detected_at) AS start_ts,
    detected_at AS end_ts,
    detected_at,
    NULL::DOUBLE AS lower,
    least(1.0, sent_bytes / checkpoint_bytes) AS upper,
    [cluster] AS cluster,
    jobs AS job_id,
    principals AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    [ip] AS ip,
    json_object(
        'quantity', 'bytes sent outside, when they sufficed, as a share of the checkpoint',
        'destination', dst_ip,
        'read_bytes', read_bytes,
        'sent_bytes', sent_bytes,
        'checkpoint_bytes', checkpoint_bytes,
        'covering_jobs', jobs
    ) AS evidence
FROM laid
