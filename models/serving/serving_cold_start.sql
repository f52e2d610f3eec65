/*
doc = """
How long each start of an inference replica took, from created to ready, by phase: schedule, image pull, rest of the
container's start, loading weights, warm-up, and what none of them explains. Workers and images run side by side, so of
each phase the longest counts. Phases that no record tells are NULL and stand in other_s.
"""
grain = ["cluster", "replica", "ready_ts"]
time = "ready_ts"
lookback = "1d"
sort = ["replica", "ready_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
replica = { type = "VARCHAR", doc = "pod" }
start_ts = { type = "TIMESTAMP", doc = "when the pod was created", null = false }
ready_ts = { type = "TIMESTAMP", doc = "when it was ready" }
node = { type = "VARCHAR", doc = "host it runs on" }
total_s = { type = "DOUBLE", doc = "created to ready", unit = "s", null = false }
schedule_s = { type = "DOUBLE", doc = "created to placed on a node", unit = "s" }
pull_s = { type = "DOUBLE", doc = "image pull, the longest of several; NULL: no event says (an image that was there is not pulled)", unit = "s" }
container_s = { type = "DOUBLE", doc = "placed to container running, less pull_s: volumes, init containers, runtime", unit = "s" }
load_s = { type = "DOUBLE", doc = "reading weights from storage, the slowest worker", unit = "s" }
warm_up_s = { type = "DOUBLE", doc = "engine's profile, cache and warm-up, compiling and capturing included", unit = "s" }
other_s = { type = "DOUBLE", doc = "rest of the time from container running to ready: imports, connections, probes", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "total_s that a named phase owns", unit = "ratio" }
*/
WITH pod AS (
    SELECT cluster, replica, start_ts, end_ts AS ready_ts, node, duration_s AS total_s
    FROM replica_phase
    WHERE phase = 'pod'
),
inside AS (
    SELECT
        p.cluster, p.replica, p.ready_ts,
        max(duration_s) FILTER (phase = 'schedule') AS schedule_s,
        max(duration_s) FILTER (phase = 'start') AS start_s,
        max(duration_s) FILTER (phase = 'serve') AS serve_s,
        max(duration_s) FILTER (phase = 'pull') AS longest_pull_s,
        max(duration_s) FILTER (phase = 'load') AS load_s,
        max(duration_s) FILTER (phase = 'warm_up') AS warm_up_s
    FROM pod p
    JOIN replica_phase r
        ON r.cluster = p.cluster AND r.replica = p.replica
        -- Kubernetes' times are whole seconds.
        AND r.start_ts >= p.start_ts - INTERVAL 1 SECOND AND r.end_ts <= p.ready_ts + INTERVAL 1 SECOND
    GROUP BY ALL
),
owned AS (
    SELECT
        *,
        least(longest_pull_s, start_s) AS pull_s,
        greatest(0, start_s - coalesce(least(longest_pull_s, start_s), 0)) AS container_s,
        greatest(0, serve_s - coalesce(load_s, 0) - coalesce(warm_up_s, 0)) AS other_s
    FROM pod
    LEFT JOIN inside USING (cluster, replica, ready_ts)
)
SELECT
    cluster, replica, start_ts, ready_ts, node, total_s, schedule_s, pull_s, container_s, load_s, warm_up_s, other_s,
    1 - coalesce(other_s, total_s) / nullif(total_s, 0) AS coverage_ratio
FROM owned
