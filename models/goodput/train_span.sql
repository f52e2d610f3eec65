/*
doc = "Stretches of a training job that its own events name from start to stop. A start without its stop is no stretch: of an asynchronous save only the start may be logged."
grain = ["cluster", "job_id", "attempt", "kind", "start_ts"]
time = "start_ts"
end = "end_ts"
# Start and stop may lie on two days.
window = "all"
sort = ["job_id", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job, as in train_event" }
attempt = { type = "BIGINT", doc = "attempt, as in train_event" }
kind = { type = "VARCHAR", doc = "init, prep, run, block, epoch, eval, data, checkpoint_save, checkpoint_load, custom: train_event.event without _start" }
start_ts = { type = "TIMESTAMP", doc = "its start event" }
end_ts = { type = "TIMESTAMP", doc = "the first stop of the kind behind it, before the next start of the kind" }
step = { type = "BIGINT", doc = "training step of the start, else of the stop" }
*/
WITH edge AS (
    SELECT
        cluster, job_id, attempt, ts, step,
        regexp_replace(event, '_(start|stop)$', '') AS kind,
        ends_with(event, '_stop') AS is_stop
    FROM train_event
    WHERE (ends_with(event, '_start') OR ends_with(event, '_stop')) AND event NOT IN ('job_start', 'job_stop')
),
paired AS (
    SELECT
        *,
        lead(ts) OVER one AS end_ts,
        lead(is_stop) OVER one AS ends,
        coalesce(step, lead(step) OVER one) AS either_step
    FROM edge
    -- Of a stop and a start at the same moment the stop comes first.
    WINDOW one AS (PARTITION BY cluster, job_id, attempt, kind ORDER BY ts, is_stop DESC)
)
SELECT cluster, job_id, attempt, kind, ts AS start_ts, end_ts, either_step AS step
FROM paired
WHERE NOT is_stop AND ends
