/*
doc = """
What each node offers, in pieces of a day: its GPUs, and whether it is in service. One row from the start of a day
to the first change, and so on to the day's end; a day counts to its end even if it is not over.

GPUs are the inventory's, else those of the scheduler's last observation of the node (at most max_age_days old).
Out of service: an interval of the scheduler's database (node_event), or an observation (node_state) with the state
DOWN, ERROR or FUTURE or a flag that closes the node for repair, until the next observation of the node, a day at most.
An interval that is still open holds beyond observed_ts likewise: until the next event, observation or start of a job on the node,
a day at most. A node that is only reserved is in service. In service: no such sign, while the scheduler is known to report such
things: the node was observed, or the cluster had an event, within max_age_days. Without that it is NULL.
Only days on which the cluster had attempts, events or observations have rows.
"""
grain = ["cluster", "node", "start_ts"]
time = "start_ts"
lookback = "8d"
sort = ["cluster", "start_ts", "node"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the node" }
node = { type = "VARCHAR", doc = "node name" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
start_ts = { type = "TIMESTAMP", doc = "start of the piece" }
end_ts = { type = "TIMESTAMP", doc = "its end" }
gpu_count = { type = "DOUBLE", doc = "GPUs installed, mean over the day where the inventory changed within it", unit = "count" }
gpu_model = { type = "VARCHAR", doc = "their model, as gpu_model_alias names it; mixed for several; '' if not known" }
cpu_count = { type = "BIGINT", doc = "CPUs, where observed", unit = "count" }
is_in_service = { type = "BOOLEAN", doc = "may work; NULL if nobody reported on the state of nodes" }
reason = { type = "VARCHAR", doc = "why it is out of service, as written" }
capacity_source = { type = "VARCHAR", doc = "inventory or observed" }

[params.max_age_days]
default = 7
doc = "days; an observation of a node, or an event of its cluster, speaks for this long"
most = 7
*/
WITH active_day AS (
    SELECT DISTINCT cluster, unnest(generate_series(
        date_trunc('day', coalesce(submit_ts, start_ts, attempt_ts)),
        greatest(
            date_trunc('day', coalesce(submit_ts, start_ts, attempt_ts)),
            coalesce(end_ts, observed_ts, attempt_ts) - INTERVAL 1 MICROSECOND
        ),
        INTERVAL 1 DAY
    ))::TIMESTAMP AS day_ts
    FROM job_attempt
    UNION
    SELECT DISTINCT cluster, date_trunc('day', ts)::TIMESTAMP FROM node_state
    UNION
    SELECT DISTINCT cluster, unnest(generate_series(
        date_trunc('day', start_ts),
        greatest(date_trunc('day', start_ts), coalesce(end_ts, observed_ts, start_ts) - INTERVAL 1 MICROSECOND),
        INTERVAL 1 DAY
    ))::TIMESTAMP
    FROM node_event
),
listed AS (
    SELECT
        d.cluster, i.node, d.day_ts,
        sum(epoch(
            least(coalesce(i.end_ts, 'infinity'::TIMESTAMP), d.day_ts + INTERVAL 1 DAY) - greatest(i.start_ts, d.day_ts)
        )) / 86400 AS gpu_count,
        CASE WHEN count(DISTINCT i.gpu_model) > 1 THEN 'mixed' ELSE coalesce(any_value(i.gpu_model), '') END AS gpu_model
    FROM active_day AS d
    JOIN inventory_gpu_span AS i
        ON i.cluster = d.cluster
        AND i.start_ts < d.day_ts + INTERVAL 1 DAY
        AND coalesce(i.end_ts, 'infinity'::TIMESTAMP) > d.day_ts
    GROUP BY ALL
),
observed AS (
    SELECT
        d.cluster, s.node, d.day_ts,
        arg_max(s.gpu_count, s.ts) AS gpu_count,
        arg_max(CASE WHEN len(s.gpu_models) > 1 THEN 'mixed' ELSE s.gpu_models[1] END, s.ts) AS gpu_model,
        arg_max(s.cpu_count, s.ts) AS cpu_count
    FROM active_day AS d
    JOIN node_state AS s
        ON s.cluster = d.cluster
        AND s.ts < d.day_ts + INTERVAL 1 DAY
        AND s.ts >= d.day_ts - getvariable('max_age_days') * INTERVAL 1 DAY
    GROUP BY ALL
),
node_day AS (
    SELECT
        cluster, node, day_ts,
        coalesce(l.gpu_count, o.gpu_count)::DOUBLE AS gpu_count,
        coalesce(nullif(l.gpu_model, ''), o.gpu_model, '') AS gpu_model,
        o.cpu_count,
        o.node IS NOT NULL AS is_observed,
        CASE WHEN l.node IS NOT NULL THEN 'inventory' ELSE 'observed' END AS capacity_source
    FROM listed AS l
    FULL JOIN observed AS o USING (cluster, node, day_ts)
    WHERE coalesce(l.gpu_count, o.gpu_count) IS NOT NULL
),
reporting AS (
    SELECT DISTINCT cluster, unnest(generate_series(
        date_trunc('day', start_ts),
        date_trunc('day', coalesce(end_ts, observed_ts, start_ts)) + getvariable('max_age_days') * INTERVAL 1 DAY,
        INTERVAL 1 DAY
    ))::TIMESTAMP AS day_ts
    FROM node_event
),
sign AS (
    SELECT cluster, node, start_ts AS ts FROM node_event
    UNION
    SELECT cluster, node, ts FROM node_state
    UNION
    SELECT cluster, unnest(node_list), start_ts FROM job_attempt WHERE start_ts IS NOT NULL
),
open_event AS (
    SELECT
        e.cluster, e.node, e.start_ts, e.reason,
        least(any_value(e.observed_ts) + INTERVAL 1 DAY, coalesce(min(s.ts), 'infinity'::TIMESTAMP)) AS end_ts
    FROM node_event AS e
    LEFT JOIN sign AS s ON s.cluster = e.cluster AND s.node = e.node AND s.ts > e.observed_ts
    WHERE e.end_ts IS NULL AND e.observed_ts IS NOT NULL
    GROUP BY e.cluster, e.node, e.start_ts, e.reason
),
closed AS (
    SELECT cluster, node, start_ts, end_ts, reason FROM node_event WHERE end_ts > start_ts
    UNION ALL
    SELECT cluster, node, start_ts, end_ts, reason FROM open_event
    UNION ALL
    SELECT cluster, node, ts, until_ts, reason
    FROM (
        SELECT
            *,
            least(ts + INTERVAL 1 DAY, coalesce(lead(ts) OVER (PARTITION BY cluster, node ORDER BY ts), 'infinity'::TIMESTAMP))
                AS until_ts
        FROM node_state
    )
    WHERE state IN ('DOWN', 'ERROR', 'FUTURE')
        OR list_has_any(state_flags, [
            'DRAIN', 'FAIL', 'NOT_RESPONDING', 'MAINTENANCE', 'INVALID_REG', 'BLOCKED', 'POWERING_DOWN', 'POWER_DOWN',
            'REBOOT_REQUESTED', 'REBOOT_ISSUED'
        ])
),
-- Closed intervals clipped to the day; those that touch become one.
clipped AS (
    SELECT
        n.cluster, n.node, n.day_ts, c.reason,
        greatest(c.start_ts, n.day_ts) AS start_ts,
        least(c.end_ts, n.day_ts + INTERVAL 1 DAY) AS end_ts
    FROM node_day AS n
    JOIN closed AS c
        ON c.cluster = n.cluster AND c.node = n.node
        AND c.start_ts < n.day_ts + INTERVAL 1 DAY AND c.end_ts > n.day_ts
),
marked AS (
    SELECT
        *,
        (start_ts > coalesce(max(end_ts) OVER (
            PARTITION BY cluster, node, day_ts ORDER BY start_ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), '-infinity'::TIMESTAMP))::INTEGER AS is_first
    FROM clipped
),
numbered AS (
    SELECT
        *,
        sum(is_first) OVER (PARTITION BY cluster, node, day_ts ORDER BY start_ts, end_ts ROWS UNBOUNDED PRECEDING) AS island
    FROM marked
),
down AS (
    SELECT
        cluster, node, day_ts, min(start_ts) AS start_ts, max(end_ts) AS end_ts,
        first(reason ORDER BY start_ts, end_ts, reason) AS reason
    FROM numbered
    GROUP BY cluster, node, day_ts, island
),
-- What lies before the first, between two and after the last of them.
up AS (
    SELECT
        cluster, node, day_ts,
        coalesce(lag(end_ts) OVER one, day_ts) AS start_ts,
        start_ts AS end_ts
    FROM down
    WINDOW one AS (PARTITION BY cluster, node, day_ts ORDER BY start_ts)
    UNION ALL
    SELECT n.cluster, n.node, n.day_ts, coalesce(max(d.end_ts), n.day_ts), n.day_ts + INTERVAL 1 DAY
    FROM node_day AS n
    LEFT JOIN down AS d USING (cluster, node, day_ts)
    GROUP BY n.cluster, n.node, n.day_ts
),
piece AS (
    SELECT cluster, node, day_ts, start_ts, end_ts, true AS is_up, NULL AS reason FROM up WHERE start_ts < end_ts
    UNION ALL
    SELECT cluster, node, day_ts, start_ts, end_ts, false, reason FROM down
)
SELECT
    p.cluster, p.node, p.day_ts, p.start_ts, p.end_ts,
    n.gpu_count,
    coalesce(a.gpu_model, n.gpu_model) AS gpu_model,
    n.cpu_count,
    CASE WHEN p.is_up AND NOT n.is_observed AND r.day_ts IS NULL THEN NULL ELSE p.is_up END AS is_in_service,
    p.reason,
    n.capacity_source
FROM piece AS p
JOIN node_day AS n USING (cluster, node, day_ts)
LEFT JOIN reporting AS r ON r.cluster = p.cluster AND r.day_ts = p.day_ts
LEFT JOIN gpu_model_alias AS a ON a.raw_model = n.gpu_model
