/*
doc = """
GPU time each account got by what it deserves, without and with memory, per day. Deserved: its fair-share weight (assoc.share) by that of its siblings under the
same parent that are listed; got: its GPU time by that of the same siblings. 1 is its due, 2 twice as much. Over 1, 7 and 30 days all use counts
the same and then not at all; decayed_ratio halves use every half_life_days, as Slurm's fair tree does (PriorityDecayHalfLife). Kueue's own weighted share, which has no
memory at all, is in quota_use. An account with accounts below it has only what was charged to it itself. Days without any use have no rows. Use older than 60 days is left out (with 7 days of half-life less than 0.3 % of its weight). Weights stand as last
observed, at most 60 days before.
"""
grain = ["cluster", "account", "day_ts"]
time = "day_ts"
lookback = "60d"
sort = ["cluster", "day_ts", "account"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
account = { type = "VARCHAR", doc = "account" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day; use counts up to its end" }
parent_account = { type = "VARCHAR", doc = "account above it; '' where none is listed" }
share = { type = "BIGINT", doc = "fair-share weight" }
deserved_ratio = { type = "DOUBLE", doc = "share by the sum over its siblings", unit = "ratio" }
used_1d_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the day", unit = "s" }
used_7d_gpu_s = { type = "DOUBLE", doc = "of the last 7 days", unit = "s" }
used_30d_gpu_s = { type = "DOUBLE", doc = "of the last 30 days", unit = "s" }
used_decayed_gpu_s = { type = "DOUBLE", doc = "with use halved every half_life_days", unit = "s" }
fair_1d_ratio = { type = "DOUBLE", doc = "share got by share deserved, the day alone; NULL if no sibling used anything", unit = "ratio" }
fair_7d_ratio = { type = "DOUBLE", doc = "over 7 days", unit = "ratio" }
fair_30d_ratio = { type = "DOUBLE", doc = "over 30 days", unit = "ratio" }
fair_decayed_ratio = { type = "DOUBLE", doc = "with decay", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of the cluster's GPU time of 30 days that accounts with a weight used", unit = "ratio" }

[params.half_life_days]
default = 7
doc = "days; PriorityDecayHalfLife of Slurm, whose default is 7-0"
*/
WITH used AS (
    SELECT cluster, account, day_ts, sum(allocated_gpu_s) AS gpu_s
    FROM gpu_utilization_by_team
    GROUP BY ALL
),
window_use AS (
    SELECT
        cluster, account, day_ts + n * INTERVAL 1 DAY AS day_ts,
        sum(gpu_s) FILTER (n = 0) AS d1,
        sum(gpu_s) FILTER (n < 7) AS d7,
        sum(gpu_s) FILTER (n < 30) AS d30,
        sum(gpu_s * power(0.5, n / getvariable('half_life_days'))) AS decayed
    FROM used, range(0, 60) AS ahead (n)
    GROUP BY cluster, account, day_ts + n * INTERVAL 1 DAY
),
cluster_use AS (
    SELECT cluster, day_ts, sum(d1) AS d1, sum(d30) AS d30 FROM window_use GROUP BY ALL
),
weight AS (
    SELECT
        cluster, account, day_ts,
        arg_max(share, ts) AS share,
        coalesce(arg_max(parent_account, ts), '') AS parent_account
    FROM (
        SELECT *, unnest(generate_series(
            date_trunc('day', ts), date_trunc('day', ts) + INTERVAL 59 DAY, INTERVAL 1 DAY
        ))::TIMESTAMP AS day_ts
        FROM assoc
        -- root is the top of Slurm's tree, no sibling of the accounts below it, even where parents are not listed.
        WHERE principal = '' AND partition = '' AND account <> 'root'
    )
    GROUP BY ALL
),
sibling AS (
    SELECT
        w.cluster, w.account, w.day_ts, w.parent_account, w.share,
        w.share / nullif(sum(w.share) OVER kin, 0) AS deserved,
        coalesce(u.d1, 0) AS d1, coalesce(u.d7, 0) AS d7, coalesce(u.d30, 0) AS d30, coalesce(u.decayed, 0) AS decayed,
        sum(u.d1) OVER kin AS all1, sum(u.d7) OVER kin AS all7, sum(u.d30) OVER kin AS all30, sum(u.decayed) OVER kin AS all_decayed
    FROM weight AS w
    LEFT JOIN window_use AS u USING (cluster, account, day_ts)
    WHERE w.share > 0
    WINDOW kin AS (PARTITION BY w.cluster, w.parent_account, w.day_ts)
)
SELECT
    s.cluster, s.account, s.day_ts, s.parent_account, s.share,
    s.deserved AS deserved_ratio,
    s.d1 AS used_1d_gpu_s,
    s.d7 AS used_7d_gpu_s,
    s.d30 AS used_30d_gpu_s,
    s.decayed AS used_decayed_gpu_s,
    s.d1 / nullif(s.all1, 0) / s.deserved AS fair_1d_ratio,
    s.d7 / nullif(s.all7, 0) / s.deserved AS fair_7d_ratio,
    s.d30 / nullif(s.all30, 0) / s.deserved AS fair_30d_ratio,
    s.decayed / nullif(s.all_decayed, 0) / s.deserved AS fair_decayed_ratio,
    sum(s.d30) OVER (PARTITION BY s.cluster, s.day_ts) / nullif(c.d30, 0) AS coverage_ratio
FROM sibling AS s
JOIN cluster_use AS c USING (cluster, day_ts)
WHERE c.d1 IS NOT NULL
