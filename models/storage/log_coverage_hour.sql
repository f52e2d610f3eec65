/*
doc = "What each log of storage, its management and the network brought per hour: records, delay, numbers missing from its sequence, losses it tells of itself. Between the first and the last hour of a day, hours without a record are rows too."
grain = ["cluster", "source", "log_stream", "hour_ts"]
time = "hour_ts"

[columns]
cluster = { type = "VARCHAR", doc = "as in the log" }
source = { type = "VARCHAR", doc = "log format" }
log_stream = { type = "VARCHAR", doc = "numbered stream, interface or host; '' where the log has none" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
record_count = { type = "BIGINT", doc = "records; 0: nothing came, which a quiet hour and a silent log have in common", unit = "count" }
principal_count = { type = "BIGINT", doc = "principals in them; NULL: the log names none", unit = "count" }
sent_bytes = { type = "BIGINT", doc = "bytes sent, of records that tell; NULL: none does", unit = "bytes" }
known_bytes_ratio = { type = "DOUBLE", doc = "share of records that tell the bytes sent", unit = "ratio" }
first_ts = { type = "TIMESTAMP", doc = "first record" }
last_ts = { type = "TIMESTAMP", doc = "last record" }
median_delay_s = { type = "DOUBLE", doc = "median delivery delay of records that tell", unit = "s" }
longest_delay_s = { type = "DOUBLE", doc = "longest delivery delay", unit = "s" }
missing_count = { type = "BIGINT", doc = "numbers missing between the hour's lowest and highest; NULL: the log has none", unit = "count" }
gap_count = { type = "BIGINT", doc = "losses that the log tells of itself (log_gap)", unit = "count" }
*/
WITH records AS (
    SELECT
        cluster, source, coalesce(log_stream, '') AS log_stream, ts, received_ts, sequence_no, principal, sent_bytes,
        0 AS is_gap
    FROM storage_access
    UNION ALL
    SELECT cluster, source, '', ts, received_ts, NULL, principal, NULL, 0 FROM storage_event
    UNION ALL
    SELECT cluster, source, '', ts, NULL, NULL, NULL, sent_bytes, 0 FROM net_flow
    UNION ALL
    SELECT cluster, source, '', ts, NULL, NULL, NULL, NULL, 1 FROM log_gap
),

hours AS (
    SELECT
        cluster, source, log_stream,
        date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        count(*) FILTER (is_gap = 0) AS record_count,
        nullif(count(DISTINCT principal), 0) AS principal_count,
        sum(sent_bytes)::BIGINT AS sent_bytes,
        count(sent_bytes) / nullif(count(*) FILTER (is_gap = 0), 0) AS known_bytes_ratio,
        min(ts) FILTER (is_gap = 0) AS first_ts,
        max(ts) FILTER (is_gap = 0) AS last_ts,
        median(date_diff('microsecond', ts, received_ts)) / 1e6 AS median_delay_s,
        max(date_diff('microsecond', ts, received_ts)) / 1e6 AS longest_delay_s,
        max(sequence_no) - min(sequence_no) + 1 - count(DISTINCT sequence_no) AS missing_count,
        sum(is_gap)::BIGINT AS gap_count
    FROM records
    GROUP BY ALL
),

spans AS (
    SELECT
        cluster, source, log_stream,
        unnest(generate_series(min(hour_ts), max(hour_ts), INTERVAL 1 HOUR)) AS hour_ts
    FROM hours
    GROUP BY cluster, source, log_stream, date_trunc('day', hour_ts)
)

SELECT
    s.cluster, s.source, s.log_stream, s.hour_ts,
    coalesce(h.record_count, 0) AS record_count,
    h.principal_count, h.sent_bytes, h.known_bytes_ratio, h.first_ts, h.last_ts, h.median_delay_s,
    h.longest_delay_s, h.missing_count,
    coalesce(h.gap_count, 0) AS gap_count
FROM spans s
LEFT JOIN hours h USING (cluster, source, log_stream, hour_ts)
