/*
doc = "Virtual clusters per day: how much of the day was seen, whether the records agree with themselves and with the operator's GPU count, and whether the day is an outage."
grain = ["cluster", "vc", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "vc"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the virtual cluster is part of" }
vc = { type = "VARCHAR", doc = "virtual cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the day, on the clock of the data set" }
minute_count = { type = "INTEGER", doc = "minutes with a record", unit = "count" }
expected_minute_count = { type = "INTEGER", doc = "minutes of a day: 1440", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "minute_count / expected_minute_count", unit = "ratio" }
running_gpu_s = { type = "DOUBLE", doc = "sum of running GPUs over the minutes seen", unit = "s" }
total_gpu_s = { type = "DOUBLE", doc = "sum of owned GPUs over the minutes seen", unit = "s" }
min_total_gpu_count = { type = "INTEGER", doc = "fewest GPUs owned in a minute", unit = "count" }
max_total_gpu_count = { type = "INTEGER", doc = "most GPUs owned in a minute", unit = "count" }
day_gpu_count = { type = "INTEGER", doc = "GPUs owned by the operator's count of the day; NULL if there is none", unit = "count" }
balance_violation_count = { type = "INTEGER", doc = "minutes in which running + idle GPUs differ from the total", unit = "count" }
count_mismatch_minute_count = { type = "INTEGER", doc = "minutes in which the total differs from day_gpu_count; NULL without a count", unit = "count" }
is_outage = { type = "BOOLEAN", doc = "GPUs are counted all day, yet no virtual cluster of the cluster runs a job in any minute: the cluster stood still or its records are lost. NULL when too little of the cluster was seen to say" }
is_count_mismatch = { type = "BOOLEAN", doc = "the operator's count differs from the minute records; NULL without a count" }
quality = { type = "VARCHAR", doc = "worst of outage, count_mismatch, balance (running + idle differs from total), partial (minutes missing), ok" }

[params.min_day_coverage_ratio]
default = 0.9
doc = "ratio; a day is judged an outage only if this share of its minutes was seen in every virtual cluster"

[params.min_cluster_share_ratio]
default = 0.5
doc = "ratio; a day is judged an outage only if the virtual clusters seen own this share of the GPUs that the operator counts in the cluster: one small idle group is no outage"

[params.min_vc_count]
default = 2
doc = "count; virtual clusters that must be seen to judge an outage when the operator's count is missing"
*/
WITH seen AS (
    SELECT
        cluster,
        vc,
        date_trunc('day', ts) AS day_ts,
        count(*) AS minute_count,
        sum(running_gpu_count) * 60.0 AS running_gpu_s,
        sum(total_gpu_count) * 60.0 AS total_gpu_s,
        min(total_gpu_count) AS min_total_gpu_count,
        max(total_gpu_count) AS max_total_gpu_count,
        count_if(running_gpu_count + idle_gpu_count <> total_gpu_count) AS balance_violation_count,
        max(running_gpu_count) AS max_running_gpu_count,
        max(running_job_count) AS max_running_job_count
    FROM vc_minute
    GROUP BY ALL
),
-- The count file spells the cluster with a capital, the minute files without.
counted AS (
    SELECT lower(cluster) AS cluster_key, vc, date_trunc('day', day_ts) AS day_ts, gpu_count
    FROM vc_gpu_day
),
counted_cluster AS (
    SELECT cluster_key, day_ts, sum(gpu_count) AS gpu_count
    FROM counted
    GROUP BY ALL
),
whole AS (
    SELECT
        s.cluster,
        s.day_ts,
        max(s.max_running_gpu_count) = 0 AND coalesce(max(s.max_running_job_count), 0) = 0
            AND sum(s.min_total_gpu_count) > 0 AS stood_still,
        min(s.minute_count) >= getvariable('min_day_coverage_ratio') * 1440
            AND CASE
                WHEN any_value(c.gpu_count) > 0
                THEN sum(s.max_total_gpu_count)
                    >= getvariable('min_cluster_share_ratio') * any_value(c.gpu_count)
                ELSE count(*) >= getvariable('min_vc_count')
            END AS is_judged
    FROM seen AS s
    LEFT JOIN counted_cluster AS c ON c.cluster_key = lower(s.cluster) AND c.day_ts = s.day_ts
    GROUP BY s.cluster, s.day_ts
),
compared AS (
    SELECT
        m.cluster,
        m.vc,
        date_trunc('day', m.ts) AS day_ts,
        any_value(c.gpu_count) AS day_gpu_count,
        count_if(m.total_gpu_count <> c.gpu_count) AS count_mismatch_minute_count
    FROM vc_minute AS m
    JOIN counted AS c
        ON c.cluster_key = lower(m.cluster) AND c.vc = m.vc AND c.day_ts = date_trunc('day', m.ts)
    GROUP BY ALL
),
judged AS (
    SELECT
        s.*,
        c.day_gpu_count,
        c.count_mismatch_minute_count,
        CASE WHEN w.is_judged THEN w.stood_still END AS is_outage,
        c.count_mismatch_minute_count > 0 AS is_count_mismatch
    FROM seen AS s
    JOIN whole AS w ON w.cluster = s.cluster AND w.day_ts = s.day_ts
    LEFT JOIN compared AS c ON c.cluster = s.cluster AND c.vc = s.vc AND c.day_ts = s.day_ts
)
SELECT
    cluster,
    vc,
    day_ts,
    minute_count::INTEGER AS minute_count,
    1440::INTEGER AS expected_minute_count,
    minute_count / 1440.0::DOUBLE AS coverage_ratio,
    running_gpu_s::DOUBLE AS running_gpu_s,
    total_gpu_s::DOUBLE AS total_gpu_s,
    min_total_gpu_count,
    max_total_gpu_count,
    day_gpu_count,
    balance_violation_count::INTEGER AS balance_violation_count,
    count_mismatch_minute_count::INTEGER AS count_mismatch_minute_count,
    is_outage,
    is_count_mismatch,
    CASE
        WHEN is_outage THEN 'outage'
        WHEN is_count_mismatch THEN 'count_mismatch'
        WHEN balance_violation_count > 0 THEN 'balance'
        WHEN minute_count < 1440 THEN 'partial'
        ELSE 'ok'
    END AS quality
FROM judged
