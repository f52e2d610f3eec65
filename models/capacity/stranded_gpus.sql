/*
doc = """
Why GPUs were free while others waited for GPUs: idle_while_pending by the first cause that holds, exclusive, so that the causes sum to it. At each change the
free GPUs are first given to waiting attempts that nothing holds back (fit: the scheduler has not started them; cpu, fraction, gang: they do not fit on
the free GPUs as these lie), and what is left to those that a rule holds back.

What holds an attempt back is its reason for waiting: the last one seen in the queue that day, else the last in its record. An attempt fits if as many
nodes as it asks for have its GPUs per node free, and a free CPU. It fails by cpu if it would fit without looking at CPUs, by fraction if the GPUs would be enough only
with the shares left on shared ones, else by gang: too large, or spread wrongly. Where neither jobs nor nodes are recorded, all is unknown.
more_without_drain_gpu_s stands beside the sum: what closed nodes would have added.
"""
grain = ["cluster", "pool", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "pool"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "pool_level.pool" }
day_ts = { type = "TIMESTAMP", doc = "start of the day" }
idle_while_pending_gpu_s = { type = "DOUBLE", doc = "as in idle_while_pending: the sum of the causes", unit = "s" }
fit_gpu_s = { type = "DOUBLE", doc = "an attempt that nothing holds back fits: the scheduler's cycle, or a limit that is not recorded", unit = "s" }
cpu_gpu_s = { type = "DOUBLE", doc = "no CPU is free beside the free GPUs", unit = "s" }
fraction_gpu_s = { type = "DOUBLE", doc = "only shares of GPUs are free", unit = "s" }
gang_gpu_s = { type = "DOUBLE", doc = "what waits is too large, or needs nodes with more free GPUs", unit = "s" }
priority_gpu_s = { type = "DOUBLE", doc = "held back for attempts of higher priority", unit = "s" }
quota_gpu_s = { type = "DOUBLE", doc = "held back by a quota or limit of user, account, queue or quality of service", unit = "s" }
reservation_gpu_s = { type = "DOUBLE", doc = "held back by a reservation or maintenance", unit = "s" }
constraint_gpu_s = { type = "DOUBLE", doc = "asks for a model, feature, topology or partition that the free GPUs do not have", unit = "s" }
held_gpu_s = { type = "DOUBLE", doc = "held by its user, an administrator, or a dependency", unit = "s" }
unknown_gpu_s = { type = "DOUBLE", doc = "who waits, or how the free GPUs lie, is not recorded", unit = "s" }
more_without_drain_gpu_s = { type = "DOUBLE", doc = "beside the sum: GPU-seconds of closed nodes that would have been waited for too", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of idle_while_pending with a cause; 1 if there is none, NULL if it is not known", unit = "ratio" }
*/
WITH level AS (
    SELECT
        *,
        date_trunc('day', start_ts)::TIMESTAMP AS day_ts,
        CASE WHEN pool <> 'any' THEN least(free_gpu_count, pending_gpu_count) + 0 * free_gpu_count END AS own,
        coalesce(sum(pending_gpu_count) FILTER (pool = 'any') OVER moment, 0) AS any_pending,
        coalesce(sum(pending_gpu_count) OVER moment, 0) AS all_pending
    FROM pool_level
    WINDOW moment AS (PARTITION BY cluster, start_ts)
),
idle AS (
    SELECT
        *,
        own + CASE WHEN sum(free_gpu_count - own) OVER moment > 0
            THEN least(any_pending, sum(free_gpu_count - own) OVER moment) * (free_gpu_count - own)
                / sum(free_gpu_count - own) OVER moment
            ELSE 0 END AS idle_gpus
    FROM level
    WHERE pool <> 'any'
    WINDOW moment AS (PARTITION BY cluster, start_ts)
),
said AS (
    SELECT cluster, job_id, attempt, date_trunc('day', ts)::TIMESTAMP AS day_ts, arg_max(state_reason, ts) AS reason
    FROM queue_snapshot
    WHERE state = 'PENDING' AND attempt IS NOT NULL
    GROUP BY ALL
),
waiting AS (
    SELECT
        a.cluster, a.job_id, a.attempt, a.state_reason, a.node_list[1] AS first_node,
        CASE WHEN len(a.gpu_models) = 1 THEN coalesce(n.gpu_model, a.gpu_models[1]) END AS gpu_model,
        coalesce(a.req_gpu_amount, a.req_gpus, a.alloc_gpu_amount, a.alloc_gpus)::DOUBLE AS gpus,
        greatest(1, coalesce(a.req_nodes, a.alloc_nodes, 1)) AS nodes,
        coalesce(a.eligible_ts, a.submit_ts) AS wait_ts,
        coalesce(a.start_ts, a.end_ts, if(a.phase < 2, a.observed_ts, NULL)) AS until_ts
    FROM job_attempt AS a
    LEFT JOIN gpu_model_alias AS n ON n.raw_model = a.gpu_models[1]
),
waiting_day AS (
    SELECT *, unnest(generate_series(
        date_trunc('day', wait_ts), until_ts - INTERVAL 1 MICROSECOND, INTERVAL 1 DAY
    ))::TIMESTAMP AS day_ts
    FROM waiting
    WHERE until_ts > wait_ts AND gpus > 0
),
model_day AS (
    SELECT
        cluster, day_ts,
        CASE WHEN count(DISTINCT gpu_model) = 1 THEN any_value(gpu_model) END AS only_model,
        list(DISTINCT gpu_model) AS models
    FROM node_service WHERE gpu_count > 0 GROUP BY ALL
),
node_model AS (
    SELECT cluster, node, day_ts, any_value(gpu_model) AS gpu_model
    FROM node_service WHERE gpu_count > 0 AND gpu_model NOT IN ('', 'mixed') GROUP BY ALL
),
demand AS (
    SELECT
        w.cluster, w.day_ts, w.gpus, w.nodes,
        CASE
            WHEN m.cluster IS NULL THEN coalesce(w.gpu_model, '')
            ELSE coalesce(n.gpu_model, m.only_model, if(list_contains(m.models, w.gpu_model), w.gpu_model, NULL), 'any')
        END AS pool,
        -- Slurm's reasons (slurm: src/common/job_state_reason.c), Kueue's (workload_types.go), kube-scheduler's messages.
        CASE
            WHEN coalesce(s.reason, w.state_reason) IS NULL THEN 'free'
            WHEN regexp_matches(coalesce(s.reason, w.state_reason), '^(QOS|Assoc|Acct)|Limit$|MaxJobs|[Qq]uota|WaitingForPreempted') THEN 'quota'
            WHEN regexp_matches(coalesce(s.reason, w.state_reason), 'Reserv|ReqNodeNotAvail|Maint|Planned') THEN 'reservation'
            WHEN regexp_matches(coalesce(s.reason, w.state_reason), 'Constraint|NoMatchingFlavor|Topology|Partition|Feature|didn''t match|Misconfigured|Licenses')
                THEN 'constraint'
            WHEN regexp_matches(coalesce(s.reason, w.state_reason), 'Held|Dependency|BeginTime|Suspended|Deactivated|Cleaning') THEN 'held'
            WHEN regexp_matches(coalesce(s.reason, w.state_reason), '^Priority') THEN 'priority'
            ELSE 'free'
        END AS hold,
        date_trunc('minute', greatest(w.wait_ts, w.day_ts) + INTERVAL 59999999 MICROSECOND)::TIMESTAMP AS from_ts,
        date_trunc('minute', least(w.until_ts, w.day_ts + INTERVAL 1 DAY) + INTERVAL 59999999 MICROSECOND)::TIMESTAMP AS to_ts
    FROM waiting_day AS w
    LEFT JOIN said AS s USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN node_model AS n ON n.cluster = w.cluster AND n.node = w.first_node AND n.day_ts = w.day_ts
    LEFT JOIN model_day AS m ON m.cluster = w.cluster AND m.day_ts = w.day_ts
),
-- Every change of waiting demand is a row of pool_level too: levels of the classes at its rows.
delta AS (
    SELECT cluster, day_ts, pool, hold, gpus, nodes, at_ts, sum(sign) AS attempts
    FROM (SELECT *, from_ts AS at_ts, 1 AS sign FROM demand UNION ALL SELECT *, to_ts, -1 FROM demand)
    GROUP BY ALL
),
class AS (
    SELECT
        l.cluster, l.day_ts, l.start_ts, c.pool, c.hold, c.gpus, c.nodes,
        sum(d.attempts) OVER (
            PARTITION BY l.cluster, l.day_ts, c.pool, c.hold, c.gpus, c.nodes ORDER BY l.start_ts ROWS UNBOUNDED PRECEDING
        ) AS attempts
    FROM (SELECT DISTINCT cluster, day_ts, start_ts FROM level) AS l
    JOIN (SELECT DISTINCT cluster, day_ts, pool, hold, gpus, nodes FROM delta) AS c USING (cluster, day_ts)
    LEFT JOIN delta AS d
        ON d.cluster = l.cluster AND d.day_ts = l.day_ts AND d.at_ts = l.start_ts
        AND d.pool = c.pool AND d.hold = c.hold AND d.gpus = c.gpus AND d.nodes = c.nodes
),
laid AS (
    SELECT
        i.cluster, i.pool, i.start_ts,
        any_value(f.start_ts) AS laid_ts
    FROM idle AS i
    ASOF JOIN (SELECT DISTINCT cluster, pool, start_ts FROM free_node_level) AS f
        ON f.cluster = i.cluster AND f.pool = i.pool AND f.start_ts <= i.start_ts
    WHERE date_trunc('day', f.start_ts) = i.day_ts AND i.idle_gpus > 0
    GROUP BY ALL
),
fit AS (
    SELECT
        c.cluster, p.pool, c.start_ts, c.hold, c.gpus, c.nodes, c.attempts,
        coalesce(sum(f.node_count) FILTER (f.has_free_cpu AND floor_gpus >= per_node), 0) AS with_cpu,
        coalesce(sum(f.node_count) FILTER (floor_gpus >= per_node), 0) AS without_cpu,
        coalesce(sum(f.node_count * f.free_gpu_count), 0) AS shares,
        coalesce(sum(f.node_count * floor(f.free_gpu_count)), 0) AS wholes
    FROM class AS c
    JOIN laid AS p ON p.cluster = c.cluster AND p.start_ts = c.start_ts AND c.pool IN (p.pool, 'any')
    JOIN free_node_level AS f ON f.cluster = p.cluster AND f.pool = p.pool AND f.start_ts = p.laid_ts,
    LATERAL (SELECT
        c.gpus / c.nodes AS per_node,
        if(c.gpus / c.nodes < 1, f.free_gpu_count, floor(f.free_gpu_count)) AS floor_gpus)
    WHERE c.attempts > 0
    GROUP BY c.cluster, p.pool, c.start_ts, c.hold, c.gpus, c.nodes, c.attempts
),
caused AS (
    SELECT
        cluster, pool, start_ts,
        sum(gpus * attempts) FILTER (hold = 'free' AND with_cpu >= nodes) AS fit,
        sum(gpus * attempts) FILTER (hold = 'free' AND with_cpu < nodes AND without_cpu >= nodes) AS cpu,
        sum(gpus * attempts) FILTER (hold = 'free' AND without_cpu < nodes AND shares >= gpus AND wholes < gpus) AS fraction,
        sum(gpus * attempts) FILTER (hold = 'free' AND without_cpu < nodes AND NOT (shares >= gpus AND wholes < gpus)) AS gang,
        sum(gpus * attempts) FILTER (hold = 'priority') AS priority,
        sum(gpus * attempts) FILTER (hold = 'quota') AS quota,
        sum(gpus * attempts) FILTER (hold = 'reservation') AS reservation,
        sum(gpus * attempts) FILTER (hold = 'constraint') AS constraint_,
        sum(gpus * attempts) FILTER (hold = 'held') AS held
    FROM fit
    GROUP BY ALL
),
-- Running remainder: each cause takes at most the GPUs that wait for it, of what those before left.
upto AS (
    SELECT
        i.*,
        least(idle_gpus, coalesce(fit, 0)) AS s1,
        least(idle_gpus, coalesce(fit, 0) + coalesce(cpu, 0)) AS s2,
        least(idle_gpus, coalesce(fit, 0) + coalesce(cpu, 0) + coalesce(fraction, 0)) AS s3,
        least(idle_gpus, coalesce(fit, 0) + coalesce(cpu, 0) + coalesce(fraction, 0) + coalesce(gang, 0)) AS s4,
        coalesce(fit, 0) + coalesce(cpu, 0) + coalesce(fraction, 0) + coalesce(gang, 0) AS free_pending,
        coalesce(priority, 0) AS priority, coalesce(quota, 0) AS quota, coalesce(reservation, 0) AS reservation,
        coalesce(constraint_, 0) AS constraint_, coalesce(held, 0) AS held
    FROM idle AS i
    LEFT JOIN caused USING (cluster, pool, start_ts)
    WHERE idle_gpus IS NOT NULL
),
summed AS (
    SELECT
        *,
        least(idle_gpus, free_pending + priority) AS s5,
        least(idle_gpus, free_pending + priority + quota) AS s6,
        least(idle_gpus, free_pending + priority + quota + reservation) AS s7,
        least(idle_gpus, free_pending + priority + quota + reservation + constraint_) AS s8,
        least(idle_gpus, free_pending + priority + quota + reservation + constraint_ + held) AS s9,
        least(pending_gpu_count + any_pending, greatest(0, installed_gpu_count - allocated_gpu_count)) AS idle_undrained
    FROM upto
),
day AS (
    SELECT
        cluster, pool, day_ts,
        60 * sum(idle_gpus * minute_count) AS idle_s,
        60 * sum(s1 * minute_count) AS fit_s,
        60 * sum((s2 - s1) * minute_count) AS cpu_s,
        60 * sum((s3 - s2) * minute_count) AS fraction_s,
        60 * sum((s4 - s3) * minute_count) AS gang_s,
        60 * sum((s5 - s4) * minute_count) AS priority_s,
        60 * sum((s6 - s5) * minute_count) AS quota_s,
        60 * sum((s7 - s6) * minute_count) AS reservation_s,
        60 * sum((s8 - s7) * minute_count) AS constraint_s,
        60 * sum((s9 - s8) * minute_count) AS held_s,
        60 * sum((idle_gpus - s9) * minute_count) AS unknown_s,
        60 * sum(greatest(0, idle_undrained - idle_gpus) * minute_count) FILTER (installed_gpu_count IS NOT NULL) AS more_s
    FROM summed
    GROUP BY ALL
)
SELECT
    cluster, pool, day_ts,
    idle_s::DOUBLE AS idle_while_pending_gpu_s,
    fit_s::DOUBLE AS fit_gpu_s,
    cpu_s::DOUBLE AS cpu_gpu_s,
    fraction_s::DOUBLE AS fraction_gpu_s,
    gang_s::DOUBLE AS gang_gpu_s,
    priority_s::DOUBLE AS priority_gpu_s,
    quota_s::DOUBLE AS quota_gpu_s,
    reservation_s::DOUBLE AS reservation_gpu_s,
    constraint_s::DOUBLE AS constraint_gpu_s,
    held_s::DOUBLE AS held_gpu_s,
    unknown_s::DOUBLE AS unknown_gpu_s,
    more_s::DOUBLE AS more_without_drain_gpu_s,
    CASE WHEN idle_s > 0 THEN 1 - unknown_s / idle_s ELSE 1 END::DOUBLE AS coverage_ratio
FROM day
