/*
doc = """
Quota of GPUs and what became of it, per queue, flavor and day, weighted by time: an observation holds until the next, max_gap_s at most. borrowed is what a
queue used beyond its own quota, lent what it left unused while others of its cohort borrowed (in proportion to what each left), starved what others
borrowed of it while its own jobs waited. Slurm's accounts with a GPU limit (assoc.grp_gpus) stand as queue_kind slurm_account: their use comes from job
records, so it is a mean of the day, and they neither lend nor borrow. Sum over one queue_kind only.
"""
grain = ["cluster", "queue_kind", "queue", "flavor", "resource", "day_ts"]
time = "day_ts"
lookback = "8d"
sort = ["cluster", "day_ts", "queue_kind", "queue"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
queue_kind = { type = "VARCHAR", doc = "quota.queue_kind, or slurm_account" }
queue = { type = "VARCHAR", doc = "queue; account in Slurm" }
flavor = { type = "VARCHAR", doc = "flavor of the GPUs; '' where there are none" }
resource = { type = "VARCHAR", doc = "resource as in quota" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
cohort = { type = "VARCHAR", doc = "queues that lend to each other" }
nominal_gpu_count = { type = "DOUBLE", doc = "own quota, mean over the time known", unit = "count" }
used_gpu_count = { type = "DOUBLE", doc = "used, mean; NULL if not shown", unit = "count" }
used_ratio = { type = "DOUBLE", doc = "used by nominal", unit = "ratio" }
borrowed_gpu_s = { type = "DOUBLE", doc = "GPU-seconds beyond the own quota", unit = "s" }
lent_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the own quota that others of the cohort used", unit = "s" }
idle_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the own quota that nobody of the cohort used", unit = "s" }
idle_while_pending_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the own quota unused while the queue's own jobs waited; NULL if waiting jobs are not shown", unit = "s" }
starved_gpu_s = { type = "DOUBLE", doc = "of these lent: others used them while own jobs waited", unit = "s" }
weighted_share = { type = "DOUBLE", doc = "the scheduler's own weighted share, mean: use now, without memory of the past" }
known_s = { type = "DOUBLE", doc = "seconds of the day for which an observation holds", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "known_s of 86400", unit = "ratio" }

[params.max_gap_s]
default = 3600
doc = "s; an observation holds this long at most. A watch writes on every change, a pull every few minutes"
most = 86400
*/
WITH seen AS (
    SELECT
        *,
        if(used > nominal, used - nominal, 0 * (used - nominal)) AS over,
        if(nominal > used, nominal - used, 0 * (nominal - used)) AS under,
        least(
            coalesce(lead(observed_ts) OVER one, 'infinity'::TIMESTAMP), observed_ts + getvariable('max_gap_s') * INTERVAL 1 SECOND
        ) AS until_ts
    FROM quota
    WHERE is_gpu
    WINDOW one AS (PARTITION BY cluster, queue_kind, queue, flavor, resource ORDER BY observed_ts)
),
shared AS (
    SELECT
        *,
        CASE WHEN cohort IS NOT NULL THEN coalesce(sum(over) OVER kin, 0) ELSE 0 END AS over_all,
        sum(under) OVER kin AS under_all
    FROM seen
    WINDOW kin AS (PARTITION BY cluster, queue_kind, cohort, flavor, resource, observed_ts)
),
split AS (
    SELECT
        *,
        CASE WHEN under_all > 0 THEN least(over_all, under_all) * under / under_all ELSE 0 * under END AS lent,
        unnest(generate_series(
            date_trunc('day', observed_ts), until_ts - INTERVAL 1 MICROSECOND, INTERVAL 1 DAY
        ))::TIMESTAMP AS day_ts
    FROM shared
),
held AS (
    SELECT *, epoch(least(until_ts, day_ts + INTERVAL 1 DAY) - greatest(observed_ts, day_ts)) AS held_s FROM split
),
slurm_limit AS (
    SELECT cluster, account, day_ts, arg_max(grp_gpus, ts)::DOUBLE AS nominal
    FROM (
        SELECT *, unnest(generate_series(
            date_trunc('day', ts), date_trunc('day', ts) + INTERVAL 7 DAY, INTERVAL 1 DAY
        ))::TIMESTAMP AS day_ts
        FROM assoc
        WHERE principal = '' AND partition = ''
    )
    GROUP BY ALL
),
slurm_use AS (
    SELECT cluster, account, day_ts, sum(allocated_gpu_s) AS gpu_s, sum(coverage_ratio * attempt_count) / sum(attempt_count) AS coverage_ratio
    FROM gpu_utilization_by_team
    GROUP BY ALL
)
SELECT
    cluster, queue_kind, queue, flavor, resource, day_ts,
    arg_max(cohort, observed_ts) AS cohort,
    sum(nominal * held_s) / sum(held_s) FILTER (nominal IS NOT NULL) AS nominal_gpu_count,
    sum(used * held_s) / sum(held_s) FILTER (used IS NOT NULL) AS used_gpu_count,
    sum(used * held_s) / nullif(sum(nominal * held_s) FILTER (used IS NOT NULL), 0) AS used_ratio,
    sum(coalesce(borrowed, over) * held_s) AS borrowed_gpu_s,
    sum(lent * held_s) AS lent_gpu_s,
    sum((under - lent) * held_s) AS idle_gpu_s,
    sum(under * if(pending_count > 0, held_s, 0 * pending_count)) AS idle_while_pending_gpu_s,
    sum(lent * if(pending_count > 0, held_s, 0 * pending_count)) AS starved_gpu_s,
    sum(weighted_share * held_s) / sum(held_s) FILTER (weighted_share IS NOT NULL) AS weighted_share,
    sum(held_s)::DOUBLE AS known_s,
    sum(held_s) / 86400::DOUBLE AS coverage_ratio
FROM held
GROUP BY ALL
UNION ALL
SELECT
    l.cluster, 'slurm_account', l.account, '', 'gres/gpu', l.day_ts, NULL,
    l.nominal,
    u.gpu_s / 86400,
    u.gpu_s / 86400 / nullif(l.nominal, 0),
    NULL, NULL, NULL, NULL, NULL, NULL,
    86400.0,
    u.coverage_ratio
FROM slurm_limit AS l
JOIN slurm_use AS u USING (cluster, account, day_ts)
WHERE l.nominal IS NOT NULL
