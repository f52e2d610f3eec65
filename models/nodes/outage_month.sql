/*
doc = "Outages of nodes cut to calendar months, with the time that the cluster's records cover: what availability, repair times and drain costs are made of."
grain = ["cluster", "month_ts", "node", "start_ts"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "node"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the node" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
node = { type = "VARCHAR", doc = "node" }
start_ts = { type = "TIMESTAMP", doc = "start of the outage, maybe in an earlier month" }
reason_class = { type = "VARCHAR", doc = "node_outage.reason_class" }
is_planned = { type = "BOOLEAN", doc = "node_outage.is_planned" }
reason = { type = "VARCHAR", doc = "node_outage.reason" }
out_s = { type = "DOUBLE", doc = "seconds of the month in which it lasted", unit = "s" }
out_gpu_s = { type = "DOUBLE", doc = "the same times the node's GPUs; NULL where those are unknown", unit = "s" }
is_begun = { type = "BOOLEAN", doc = "it began in the month" }
repair_s = { type = "DOUBLE", doc = "its whole length, if it ended in the month", unit = "s" }
open_s = { type = "DOUBLE", doc = "its length so far, if it lasts on at the month's end or the end of the records", unit = "s" }
*/
WITH cut AS (
    SELECT
        *,
        coalesce(end_ts, observed_ts, start_ts) AS until_ts,
        unnest(generate_series(
            date_trunc('month', start_ts),
            greatest(date_trunc('month', start_ts), coalesce(end_ts, observed_ts, start_ts) - INTERVAL 1 MICROSECOND),
            INTERVAL 1 MONTH
        )) AS month_ts
    FROM node_outage
)
SELECT
    cluster,
    month_ts,
    node,
    start_ts,
    reason_class,
    is_planned,
    reason,
    epoch(least(until_ts, month_ts + INTERVAL 1 MONTH) - greatest(start_ts, month_ts))::DOUBLE AS out_s,
    epoch(least(until_ts, month_ts + INTERVAL 1 MONTH) - greatest(start_ts, month_ts)) * gpu_count::DOUBLE AS out_gpu_s,
    start_ts >= month_ts AS is_begun,
    CASE WHEN end_ts < month_ts + INTERVAL 1 MONTH THEN epoch(end_ts - start_ts)::DOUBLE END AS repair_s,
    CASE WHEN end_ts IS NULL OR end_ts >= month_ts + INTERVAL 1 MONTH
        THEN epoch(least(until_ts, month_ts + INTERVAL 1 MONTH) - start_ts)::DOUBLE END AS open_s
FROM cut
