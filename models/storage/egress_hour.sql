/*
doc = "Bytes that an inside address sent to an outside one in an hour. Where several logs saw the traffic, the one that counted most stands."
grain = ["cluster", "src_ip", "dst_ip", "hour_ts"]
time = "hour_ts"

[columns]
cluster = { type = "VARCHAR", doc = "net_flow.cluster" }
src_ip = { type = "VARCHAR", doc = "inside address, behind a NAT gateway where the record tells" }
dst_ip = { type = "VARCHAR", doc = "outside address" }
hour_ts = { type = "TIMESTAMP", doc = "start of the UTC hour in which flows began" }
sent_bytes = { type = "BIGINT", doc = "bytes sent outward; NULL: no flow tells", unit = "bytes" }
flow_count = { type = "BIGINT", doc = "flows", unit = "count" }
missed_bytes = { type = "BIGINT", doc = "bytes the sensor says it missed", unit = "bytes" }
first_ts = { type = "TIMESTAMP", doc = "first flow" }
last_ts = { type = "TIMESTAMP", doc = "end of the last flow, where logged" }
dst_service = { type = "VARCHAR", doc = "cloud service of the destination, where logged" }

[params.inside]
default = '^(?:10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|127\.|169\.254\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|f[cd]|fe80:|::1$)'
doc = "regular expression of inside addresses: private, shared, loopback and link-local ranges (RFC 1918, 6598, 4193, 3927)"
*/
WITH flows AS (
    SELECT
        cluster, source, ts, end_ts, sent_bytes, missed_bytes, dst_service,
        coalesce(packet_src_ip, src_ip) AS src_ip,
        coalesce(packet_dst_ip, dst_ip) AS dst_ip,
        date_trunc('hour', ts)::TIMESTAMP AS hour_ts
    FROM net_flow
    WHERE coalesce(action, 'accept') <> 'reject'
),

by_log AS (
    SELECT
        cluster, source, src_ip, dst_ip, hour_ts,
        sum(sent_bytes)::BIGINT AS sent_bytes,
        count(*) AS flow_count,
        sum(missed_bytes)::BIGINT AS missed_bytes,
        min(ts) AS first_ts,
        max(coalesce(end_ts, ts)) AS last_ts,
        min(dst_service) AS dst_service
    FROM flows
    WHERE regexp_matches(lower(src_ip), getvariable('inside')) AND NOT regexp_matches(lower(dst_ip), getvariable('inside'))
        -- Multicast and broadcast reach nobody outside.
        AND NOT regexp_matches(lower(dst_ip), '^(?:22[4-9]|23\d|255)\.|^ff')
    GROUP BY ALL
)

SELECT cluster, src_ip, dst_ip, hour_ts, sent_bytes, flow_count, missed_bytes, first_ts, last_ts, dst_service
FROM by_log
QUALIFY row_number() OVER (
    PARTITION BY cluster, src_ip, dst_ip, hour_ts ORDER BY sent_bytes DESC NULLS LAST, source
) = 1
