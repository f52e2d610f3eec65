/*
doc = "Utilisation of a virtual cluster over a month: quartiles of running over owned GPUs, minute by minute, days of outage left out."
grain = ["cluster", "vc", "month_ts"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "vc"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the virtual cluster is part of" }
vc = { type = "VARCHAR", doc = "virtual cluster" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, on the clock of the data set" }
minute_count = { type = "INTEGER", doc = "minutes counted: with a record, outside outages, owning at least one GPU", unit = "count" }
q1_ratio = { type = "DOUBLE", doc = "first quartile of running_gpu_count / total_gpu_count per minute, linear interpolation", unit = "ratio" }
median_ratio = { type = "DOUBLE", doc = "median of the same", unit = "ratio" }
q3_ratio = { type = "DOUBLE", doc = "third quartile of the same", unit = "ratio" }
mean_ratio = { type = "DOUBLE", doc = "mean of the same", unit = "ratio" }
excluded_day_count = { type = "INTEGER", doc = "days left out as outages", unit = "count" }
flagged_day_count = { type = "INTEGER", doc = "days counted although vc_day.quality is not ok", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "minute_count over the minutes of the month", unit = "ratio" }
*/
WITH month_minute AS (
    SELECT
        m.cluster,
        m.vc,
        date_trunc('month', m.ts) AS month_ts,
        m.running_gpu_count / nullif(m.total_gpu_count, 0) AS busy_ratio
    FROM vc_minute AS m
    JOIN vc_day AS d
        ON d.cluster = m.cluster AND d.vc = m.vc AND d.day_ts = date_trunc('day', m.ts)
    WHERE d.is_outage IS NOT true
),
days AS (
    SELECT
        cluster,
        vc,
        date_trunc('month', day_ts) AS month_ts,
        count_if(is_outage) AS excluded_day_count,
        count_if(is_outage IS NOT true AND quality <> 'ok') AS flagged_day_count
    FROM vc_day
    GROUP BY ALL
),
spread AS (
    SELECT
        cluster,
        vc,
        month_ts,
        count(busy_ratio) AS minute_count,
        quantile_cont(busy_ratio, 0.25) AS q1_ratio,
        quantile_cont(busy_ratio, 0.5) AS median_ratio,
        quantile_cont(busy_ratio, 0.75) AS q3_ratio,
        avg(busy_ratio) AS mean_ratio
    FROM month_minute
    GROUP BY ALL
)
-- A month of nothing but outage keeps its row: no minutes, no quartiles.
SELECT
    d.cluster,
    d.vc,
    d.month_ts,
    coalesce(s.minute_count, 0)::INTEGER AS minute_count,
    s.q1_ratio,
    s.median_ratio,
    s.q3_ratio,
    s.mean_ratio,
    d.excluded_day_count::INTEGER AS excluded_day_count,
    d.flagged_day_count::INTEGER AS flagged_day_count,
    coalesce(s.minute_count, 0)
        / (date_diff('day', d.month_ts, d.month_ts + INTERVAL 1 MONTH) * 1440.0)::DOUBLE AS coverage_ratio
FROM days AS d
LEFT JOIN spread AS s USING (cluster, vc, month_ts)
