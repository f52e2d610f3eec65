/*
doc = """
GPU-hours that nodes out of service could not offer, by month and reason class; planned maintenance apart.
GPUs configured times the time out: a node that drains still runs its last jobs, so this is what the
scheduler lost, not what stood idle.
"""
grain = ["cluster", "month_ts", "reason_class"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "reason_class"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the nodes" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
reason_class = { type = "VARCHAR", doc = "node_outage.reason_class" }
is_planned = { type = "BOOLEAN", doc = "class planned_maintenance" }
outage_count = { type = "BIGINT", doc = "outages that began in the month", unit = "count" }
node_count = { type = "BIGINT", doc = "nodes concerned", unit = "count" }
out_node_h = { type = "DOUBLE", doc = "node-hours out of service in the month", unit = "h" }
lost_gpu_h = { type = "DOUBLE", doc = "GPU-hours of them, over nodes whose GPUs are known; NULL if none is", unit = "h" }
lost_ratio = { type = "DOUBLE", doc = "share of the month's lost GPU-hours of the cluster", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of out_node_h on nodes whose GPUs are known", unit = "ratio" }
*/
SELECT
    cluster,
    month_ts,
    reason_class,
    is_planned,
    count(*) FILTER (is_begun) AS outage_count,
    count(DISTINCT node) AS node_count,
    sum(out_s) / 3600 AS out_node_h,
    sum(out_gpu_s) / 3600 AS lost_gpu_h,
    sum(out_gpu_s) / nullif(sum(sum(out_gpu_s)) OVER (PARTITION BY cluster, month_ts), 0) AS lost_ratio,
    CASE WHEN sum(out_s) > 0
        THEN coalesce(sum(out_s) FILTER (out_gpu_s IS NOT NULL), 0) / sum(out_s) END AS coverage_ratio
FROM outage_month
GROUP BY cluster, month_ts, reason_class, is_planned
