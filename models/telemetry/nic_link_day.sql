/*
doc = """
Link state changes of each network interface per day, from kernel logs: how often its link went down, and
whether it flaps. An interface without events has no row: a log says nothing of links that are well.

A loss is a link_down. Several programs may tell of one loss, so of the messages within a minute the one told
most often counts; lines on the RDMA device of an interface are left out (link_copy). A cycle is a time from a loss to the next link_up of min_down_s or longer. What lies
between a loss and a boot of the node is a shutdown and counts as neither. The second of a stamp that has both
downs and ups does not tell their order: downs are taken first. A loss more than a day before its link_up is
not seen.
"""
grain = ["cluster", "node", "device", "day_ts"]
time = "day_ts"
lookback = "1d"
sort = ["cluster", "node", "device"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the log gives it" }
device = { type = "VARCHAR", doc = "network interface" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
down_count = { type = "BIGINT", doc = "losses of the link", unit = "count" }
down_s = { type = "DOUBLE", doc = "time down, of losses that ended that day", unit = "s" }
cycle_count = { type = "BIGINT", doc = "cycles that ended that day", unit = "count" }
most_down_24h_count = { type = "BIGINT", doc = "most losses within 24 h up to one of this day", unit = "count" }
most_cycle_12h_count = { type = "BIGINT", doc = "most cycles within 12 h up to one of this day", unit = "count" }
is_down_at_end = { type = "BOOLEAN", doc = "its last event of the day is link_down" }
first_down_ts = { type = "TIMESTAMP", doc = "first loss of the day" }
last_event_ts = { type = "TIMESTAMP", doc = "last event of the day" }
flapping_ts = { type = "TIMESTAMP", doc = "first time of the day at which max_cycles_12h or max_downs_24h was reached; NULL: never" }

[params.min_down_s]
default = 25
doc = "s; a shorter loss is no cycle. gpud: a port that was down for 25 s and became active."
[params.max_cycles_12h]
default = 3
doc = "count of cycles within 12 h that is flapping: gpud."
[params.max_downs_24h]
default = 5
doc = "count of losses within 24 h that is flapping: azurehpc-health-checks, lost carriers in syslog."
*/
WITH event AS (
    SELECT
        cluster, node, device, ts, message, event_count, event = 'link_up' AS is_up,
        sum((event = 'link_up')::INTEGER) OVER so_far - (event = 'link_up')::INTEGER AS spell_no
    FROM gpu_event
    ANTI JOIN link_copy USING (cluster, node, ts, message, repeat_no)
    WHERE event IN ('link_down', 'link_up') AND device IS NOT NULL
    WINDOW so_far AS (
        PARTITION BY cluster, node, device ORDER BY ts, event, message, repeat_no ROWS UNBOUNDED PRECEDING
    )
),
-- From the first loss since the link was last up until it is up again.
spell AS (
    SELECT
        cluster, node, device, spell_no,
        min(ts) FILTER (NOT is_up) AS start_ts,
        min(ts) FILTER (is_up) AS end_ts
    FROM event
    GROUP BY ALL
    HAVING bool_or(NOT is_up)
),
real_spell AS (
    SELECT *
    FROM spell
    WHERE NOT EXISTS (
        FROM gpu_event boot
        WHERE boot.event = 'boot' AND boot.cluster = spell.cluster AND boot.node = spell.node
            AND boot.ts >= spell.start_ts AND boot.ts <= coalesce(spell.end_ts, 'infinity'::TIMESTAMP)
    )
),
loss AS (
    SELECT cluster, node, device, minute_ts, max(told_count) AS down_count,
        min(first_ts) AS first_ts, max(ts) AS ts
    FROM (
        SELECT
            cluster, node, device, date_trunc('minute', ts) AS minute_ts, message,
            sum(event_count)::BIGINT AS told_count, min(ts) AS first_ts, max(ts) AS ts
        FROM event
        SEMI JOIN real_spell USING (cluster, node, device, spell_no)
        WHERE NOT is_up
        GROUP BY ALL
    )
    GROUP BY ALL
),
loss_day AS (
    SELECT
        cluster, node, device, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        sum(down_count)::BIGINT AS down_count,
        max(recent_count) AS most_down_24h_count,
        min(first_ts) AS first_down_ts,
        min(ts) FILTER (recent_count >= getvariable('max_downs_24h')) AS flapping_ts
    FROM (
        SELECT
            *,
            sum(down_count) OVER (
                PARTITION BY cluster, node, device ORDER BY minute_ts
                RANGE BETWEEN INTERVAL '1439 minutes' PRECEDING AND CURRENT ROW
            )::BIGINT AS recent_count
        FROM loss
    )
    GROUP BY ALL
),
cycle_day AS (
    SELECT
        cluster, node, device, date_trunc('day', end_ts)::TIMESTAMP AS day_ts,
        sum(down_s) AS down_s,
        count(*) FILTER (is_cycle) AS cycle_count,
        max(recent_count) AS most_cycle_12h_count,
        min(end_ts) FILTER (recent_count >= getvariable('max_cycles_12h')) AS flapping_ts
    FROM (
        SELECT
            *,
            count(*) FILTER (is_cycle) OVER (
                PARTITION BY cluster, node, device ORDER BY end_ts
                RANGE BETWEEN INTERVAL 12 HOUR PRECEDING AND CURRENT ROW
            ) AS recent_count
        FROM (
            SELECT
                *, epoch(end_ts - start_ts) AS down_s,
                epoch(end_ts - start_ts) >= getvariable('min_down_s') AS is_cycle
            FROM real_spell
            WHERE end_ts IS NOT NULL
        )
    )
    GROUP BY ALL
),
event_day AS (
    SELECT
        cluster, node, device, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        max(ts) AS last_event_ts,
        NOT max({'ts': ts, 'is_up': is_up}).is_up AS is_down_at_end
    FROM event
    GROUP BY ALL
)
SELECT
    cluster, node, device, day_ts,
    coalesce(down_count, 0) AS down_count,
    coalesce(down_s, 0) AS down_s,
    coalesce(cycle_count, 0) AS cycle_count,
    coalesce(most_down_24h_count, 0) AS most_down_24h_count,
    coalesce(most_cycle_12h_count, 0) AS most_cycle_12h_count,
    is_down_at_end, first_down_ts, last_event_ts,
    least(loss_day.flapping_ts, cycle_day.flapping_ts) AS flapping_ts
FROM event_day
LEFT JOIN loss_day USING (cluster, node, device, day_ts)
LEFT JOIN cycle_day USING (cluster, node, device, day_ts)
