/*
doc = """
Moments on the way from admission to work, per attempt that started: what cold_start is made of. Of pods the last
one counts, since a job works when all are there. From queue_event (Kueue, Volcano, YuniKorn, Kubernetes) and the job's log;
an attempt that neither tells of has no row.
"""
grain = ["cluster", "job_id", "attempt"]
time = "start_ts"
sort = ["cluster", "start_ts", "job_id"]
# Events come on days after the attempt was submitted.
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
start_ts = { type = "TIMESTAMP", doc = "job_attempt.start_ts" }
queue = { type = "VARCHAR", doc = "queue of its events, else its partition" }
admitted_ts = { type = "TIMESTAMP", doc = "admitted; else its quota was reserved" }
bound_ts = { type = "TIMESTAMP", doc = "its last pod was bound to a node" }
pulled_ts = { type = "TIMESTAMP", doc = "its last image was there" }
started_ts = { type = "TIMESTAMP", doc = "its last container started; without such events start_ts" }
pods_ready_ts = { type = "TIMESTAMP", doc = "all its pods were ready" }
first_step_ts = { type = "TIMESTAMP", doc = "its first training step began" }
image_pull_s = { type = "DOUBLE", doc = "longest image pull: as told, else first pulling to last pulled", unit = "s" }
*/
WITH run AS (
    SELECT cluster, job_id, attempt, attempt_ts, start_ts, raw_job_id, partition,
        least(coalesce(end_ts, observed_ts, start_ts),
            coalesce(lead(attempt_ts) OVER (PARTITION BY cluster, job_id ORDER BY attempt), 'infinity'::TIMESTAMP)) AS until_ts
    FROM job_attempt
    WHERE start_ts IS NOT NULL
        AND (
            (cluster, job_id) IN (SELECT (cluster, job_id) FROM queue_event)
            OR (cluster, job_id) IN (SELECT (cluster, job_id) FROM train_step)
            OR (cluster, raw_job_id) IN (SELECT (cluster, job_id) FROM train_step)
        )
),
told AS (
    SELECT
        run.cluster, run.job_id, run.attempt,
        max(coalesce(queue_event.queue, cluster_queue)) AS queue,
        coalesce(min(ts) FILTER (kind = 'admitted'), min(ts) FILTER (kind = 'quota_reserved')) AS admitted_ts,
        max(ts) FILTER (kind = 'bound') AS bound_ts,
        max(ts) FILTER (kind = 'pulled') AS pulled_ts,
        max(ts) FILTER (kind = 'started') AS started_ts,
        min(ts) FILTER (kind = 'pods_ready') AS pods_ready_ts,
        coalesce(
            max(duration_s) FILTER (kind = 'pulled'),
            epoch(max(ts) FILTER (kind = 'pulled') - min(ts) FILTER (kind = 'pulling'))
        ) AS image_pull_s
    FROM run
    JOIN queue_event ON queue_event.cluster = run.cluster AND queue_event.job_id = run.job_id
        AND ts >= attempt_ts AND ts <= until_ts
    GROUP BY ALL
),
stepped AS (
    SELECT run.cluster, run.job_id, run.attempt, min(step.ts) AS first_step_ts
    FROM run
    JOIN train_step AS step ON step.cluster = run.cluster AND step.job_id IN (run.job_id, run.raw_job_id)
        AND time_basis = 'absolute' AND step.ts BETWEEN run.start_ts AND until_ts
    GROUP BY ALL
)
SELECT
    cluster, job_id, attempt, start_ts,
    coalesce(queue, partition) AS queue,
    admitted_ts, bound_ts, pulled_ts, coalesce(started_ts, start_ts) AS started_ts, pods_ready_ts, first_step_ts,
    image_pull_s::DOUBLE AS image_pull_s
FROM run
LEFT JOIN told USING (cluster, job_id, attempt)
LEFT JOIN stepped USING (cluster, job_id, attempt)
WHERE told.job_id IS NOT NULL OR stepped.job_id IS NOT NULL
