/*
doc = """
In-service time of nodes by installed time, and times to repair, by month and reason of the outage.

Row any holds all outages, unplanned all but class planned_maintenance, the others one class each; their
losses sum to that of any. A node is installed from node_known.first_ts (else the first record of its cluster) to its withdrawal; only the part of the
month that the cluster's outage records reach is counted, and coverage_ratio says how much that is. Without
any record of outages nothing is known: no row says 100 %.
"""
grain = ["cluster", "month_ts", "reason_class"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "reason_class"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the nodes" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
reason_class = { type = "VARCHAR", doc = "node_outage.reason_class, any or unplanned" }
node_count = { type = "BIGINT", doc = "nodes installed at some time of the covered part of the month", unit = "count" }
installed_node_s = { type = "DOUBLE", doc = "their installed seconds", unit = "s" }
out_node_s = { type = "DOUBLE", doc = "seconds of it out of service for the reason", unit = "s" }
availability_ratio = { type = "DOUBLE", doc = "1 - out_node_s / installed_node_s: what availability would be if nothing else took nodes out", unit = "ratio" }
outage_count = { type = "BIGINT", doc = "outages that began in the month", unit = "count" }
ended_count = { type = "BIGINT", doc = "outages that ended in the month", unit = "count" }
repair_mean_s = { type = "DOUBLE", doc = "mean length (MTTR) of those that ended in the month", unit = "s" }
repair_p50_s = { type = "DOUBLE", doc = "their median length, linear interpolation", unit = "s" }
repair_p90_s = { type = "DOUBLE", doc = "their 90th percentile", unit = "s" }
open_count = { type = "BIGINT", doc = "outages not ended by the month's end, or the end of the records", unit = "count" }
oldest_open_s = { type = "DOUBLE", doc = "age of the oldest of them by then", unit = "s" }
oldest_open_node = { type = "VARCHAR", doc = "its node" }
oldest_open_reason = { type = "VARCHAR", doc = "its reason, as written" }
coverage_ratio = { type = "DOUBLE", doc = "share of the month that the cluster's outage records reach", unit = "ratio" }
*/
WITH reach AS (
    SELECT
        cluster,
        min(record_ts) AS from_ts,
        max(outage_seen_ts) AS until_ts
    FROM node_known
    GROUP BY cluster
    HAVING max(outage_seen_ts) IS NOT NULL
),
month AS (
    SELECT
        cluster, month_ts,
        greatest(from_ts, month_ts) AS from_ts,
        least(until_ts, month_ts + INTERVAL 1 MONTH) AS until_ts,
        epoch(INTERVAL 1 MONTH + month_ts - month_ts) AS month_s
    FROM reach, unnest(generate_series(
        date_trunc('month', from_ts), greatest(date_trunc('month', from_ts), until_ts - INTERVAL 1 MICROSECOND), INTERVAL 1 MONTH
    )) AS each(month_ts)
),
installed AS (
    SELECT
        month.cluster, month_ts,
        count(*) AS node_count,
        sum(epoch(least(month.until_ts, coalesce(last_ts, 'infinity'::TIMESTAMP)) - greatest(month.from_ts, coalesce(first_ts, month.from_ts))))
            AS installed_node_s,
        any_value(epoch(month.until_ts - month.from_ts) / month_s) AS coverage_ratio
    FROM month
    JOIN node_known AS node ON node.cluster = month.cluster
        AND coalesce(first_ts, month.from_ts) < month.until_ts AND coalesce(last_ts, 'infinity'::TIMESTAMP) > month.from_ts
    GROUP BY month.cluster, month_ts
),
grouped AS (
    SELECT *, unnest(CASE WHEN is_planned THEN ['any', reason_class] ELSE ['any', 'unplanned', reason_class] END) AS class
    FROM outage_month
),
lost AS (
    SELECT
        cluster, month_ts, class AS reason_class,
        sum(out_s) AS out_node_s,
        count(*) FILTER (is_begun) AS outage_count,
        count(repair_s) AS ended_count,
        avg(repair_s) AS repair_mean_s,
        quantile_cont(repair_s, 0.5) AS repair_p50_s,
        quantile_cont(repair_s, 0.9) AS repair_p90_s,
        count(open_s) AS open_count,
        max(open_s) AS oldest_open_s,
        arg_max({'node': node, 'reason': reason}, (open_s, node)) FILTER (open_s IS NOT NULL) AS oldest
    FROM grouped
    GROUP BY cluster, month_ts, class
),
-- A month without an outage still has its availability.
wanted AS (
    SELECT cluster, month_ts, unnest(['any', 'unplanned']) AS reason_class FROM installed
    UNION
    SELECT cluster, month_ts, reason_class FROM lost
)
SELECT
    cluster,
    month_ts,
    reason_class,
    node_count,
    installed_node_s::DOUBLE AS installed_node_s,
    coalesce(out_node_s, 0)::DOUBLE AS out_node_s,
    CASE WHEN installed_node_s > 0 THEN greatest(0, 1 - coalesce(out_node_s, 0) / installed_node_s) END::DOUBLE
        AS availability_ratio,
    coalesce(outage_count, 0) AS outage_count,
    coalesce(ended_count, 0) AS ended_count,
    repair_mean_s,
    repair_p50_s,
    repair_p90_s,
    coalesce(open_count, 0) AS open_count,
    oldest_open_s,
    oldest.node AS oldest_open_node,
    oldest.reason AS oldest_open_reason,
    coverage_ratio::DOUBLE AS coverage_ratio
FROM wanted
JOIN installed USING (cluster, month_ts)
LEFT JOIN lost USING (cluster, month_ts, reason_class)
