/*
doc = """
How close the parts that run a Kubernetes cluster are to their ceilings, per hour: levels (mean and highest), rates of counters, percentiles of histograms (linear inside a bucket, as
Prometheus' histogram_quantile; the open last bucket gives its lower bound, so the figure is a lower bound there). Increases are those between
samples of one instance at most max_gap_s apart; a counter that falls was restarted and counts from 0.

Ceilings: requests in flight 400 read-only and 200 mutating (kube-apiserver's defaults); request_s p99 1 s, 30 s for LIST (Kubernetes scalability SLOs); etcd_db_bytes the
quota that etcd shows, else 2 GiB, its default; etcd_wal_fsync_s p99 10 ms, etcd_commit_s p99 25 ms (etcd FAQ); pod_scheduling_s p99 5 s (pod start-up SLO). Others have none.
"""
grain = ["cluster", "signal", "part", "hour_ts"]
time = "hour_ts"
lookback = "1h"
sort = ["cluster", "signal", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
signal = { type = "VARCHAR", doc = "control_plane_sample.signal" }
part = { type = "VARCHAR", doc = "control_plane_sample.part" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
kind = { type = "VARCHAR", doc = "gauge, counter or histogram" }
instance_count = { type = "BIGINT", doc = "instances seen", unit = "count" }
mean_value = { type = "DOUBLE", doc = "gauges: mean over samples and instances" }
max_value = { type = "DOUBLE", doc = "gauges: highest" }
rate_per_s = { type = "DOUBLE", doc = "counters and histograms: increase per second of the time covered, over all instances", unit = "1/s" }
p50_s = { type = "DOUBLE", doc = "histograms: median", unit = "s" }
p99_s = { type = "DOUBLE", doc = "histograms: 99th percentile", unit = "s" }
ceiling = { type = "DOUBLE", doc = "what max_value or p99_s should stay under; NULL: none known" }
ceiling_ratio = { type = "DOUBLE", doc = "max_value or p99_s by the ceiling", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of the hour between samples at most max_gap_s apart, of the instance seen longest", unit = "ratio" }

[params.max_gap_s]
default = 600
doc = "s; samples further apart say nothing about the time between. Ten scrapes of a minute"
most = 3600
*/
WITH stepped AS (
    SELECT
        *,
        date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        CASE WHEN ts - lag(ts) OVER one <= to_seconds(getvariable('max_gap_s')) THEN epoch(ts - lag(ts) OVER one) END AS gap_s,
        if(value >= lag(value) OVER one, value - lag(value) OVER one, value) AS grown
    FROM (SELECT *, TRY_CAST(nullif(bucket, '') AS DOUBLE) AS upper_bound FROM control_plane_sample)
    WINDOW one AS (PARTITION BY cluster, instance, signal, part, bucket ORDER BY ts)
),
covered AS (
    SELECT cluster, signal, part, hour_ts, any_value(kind) AS kind, count(*) AS instance_count, max(covered_s) AS covered_s
    FROM (
        SELECT cluster, signal, part, instance, hour_ts, any_value(kind) AS kind, coalesce(sum(gap_s), 0) AS covered_s
        FROM (SELECT DISTINCT ON (cluster, signal, part, instance, ts) * FROM stepped ORDER BY bucket)
        GROUP BY ALL
    )
    GROUP BY ALL
),
level AS (
    SELECT cluster, signal, part, hour_ts, avg(value) AS mean_value, max(value) AS max_value
    FROM stepped
    WHERE kind = 'gauge'
    GROUP BY ALL
),
grown AS (
    SELECT cluster, signal, part, hour_ts, upper_bound, sum(grown) AS grown
    FROM stepped
    WHERE kind <> 'gauge' AND gap_s IS NOT NULL
    GROUP BY ALL
),
bucket AS (
    SELECT
        *,
        max(grown) OVER one AS total,
        coalesce(lag(upper_bound) OVER (one ORDER BY upper_bound), 0) AS lower_bound,
        coalesce(lag(grown) OVER (one ORDER BY upper_bound), 0) AS below
    FROM grown
    WINDOW one AS (PARTITION BY cluster, signal, part, hour_ts)
),
quantile AS (
    SELECT
        cluster, signal, part, hour_ts,
        any_value(total) AS total,
        arg_min(if(isinf(upper_bound), lower_bound, lower_bound + (upper_bound - lower_bound) * (0.5 * total - below) / nullif(grown - below, 0)), upper_bound)
            FILTER (grown >= 0.5 * total AND total > 0) AS p50_s,
        arg_min(if(isinf(upper_bound), lower_bound, lower_bound + (upper_bound - lower_bound) * (0.99 * total - below) / nullif(grown - below, 0)), upper_bound)
            FILTER (grown >= 0.99 * total AND total > 0) AS p99_s
    FROM bucket
    GROUP BY ALL
),
quota AS (
    SELECT cluster, hour_ts, min(value) AS quota_bytes FROM stepped WHERE signal = 'etcd_quota_bytes' AND value > 0 GROUP BY ALL
),
joined AS (
    SELECT
        c.cluster, c.signal, c.part, c.hour_ts, c.kind, c.instance_count, l.mean_value, l.max_value,
        q.total / nullif(c.covered_s, 0) AS rate_per_s,
        CASE WHEN c.kind = 'histogram' THEN q.p50_s END AS p50_s,
        CASE WHEN c.kind = 'histogram' THEN q.p99_s END AS p99_s,
        CASE
            WHEN c.signal = 'inflight_request_count' THEN CASE c.part WHEN 'mutating' THEN 200 WHEN 'readOnly' THEN 400 END
            WHEN c.signal = 'request_s' THEN if(c.part = 'LIST', 30, 1)
            WHEN c.signal = 'etcd_db_bytes' THEN coalesce(u.quota_bytes, 2147483648)
            WHEN c.signal = 'etcd_wal_fsync_s' THEN 0.01
            WHEN c.signal = 'etcd_commit_s' THEN 0.025
            WHEN c.signal = 'pod_scheduling_s' THEN 5
        END::DOUBLE AS ceiling,
        c.covered_s
    FROM covered AS c
    LEFT JOIN level AS l USING (cluster, signal, part, hour_ts)
    LEFT JOIN quantile AS q USING (cluster, signal, part, hour_ts)
    LEFT JOIN quota AS u ON u.cluster = c.cluster AND u.hour_ts = c.hour_ts
)
SELECT
    cluster, signal, part, hour_ts, kind, instance_count, mean_value, max_value,
    rate_per_s::DOUBLE AS rate_per_s,
    p50_s, p99_s, ceiling,
    coalesce(p99_s, max_value) / ceiling AS ceiling_ratio,
    covered_s / 3600::DOUBLE AS coverage_ratio
FROM joined
