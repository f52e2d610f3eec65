/*
doc = """
Attempts that ended before their job was done: preempted or requeued ones, and any other end that is neither
COMPLETED nor the last of its job. What each lost, who took its place, and how long the job took to go on.
Parts of a heterogeneous job are one.

Lost work is GPUs x (end - the later of start and last checkpoint). It is known where the job's own log
(train_event, clock times) reaches into the attempt and reports checkpoints of the job; else it lies between
nothing and the whole attempt. The preemptor is the one that the scheduler names (queue_event), else the one
attempt that had been waiting and started on a node of it within preempt_window_s after its end (inferred).

A person who submits again under a new job id is not linked.
"""
grain = ["cluster", "job_id", "attempt"]
time = "end_ts"
sort = ["cluster", "end_ts", "job_id"]
# The next attempt of a job may start months later.
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job.job_id" }
attempt = { type = "BIGINT", doc = "attempt that was interrupted", unit = "s" }
job_ts = { type = "TIMESTAMP", doc = "job.job_ts", null = false }
start_ts = { type = "TIMESTAMP", doc = "its start", null = false }
end_ts = { type = "TIMESTAMP", doc = "its end, or the last time that its record proves" }
principal = { type = "VARCHAR", doc = "user who submitted the job" }
account = { type = "VARCHAR", doc = "account charged" }
partition = { type = "VARCHAR", doc = "partition" }
qos = { type = "VARCHAR", doc = "quality of service" }
state = { type = "VARCHAR", doc = "state it ended in", null = false }
failure_domain = { type = "VARCHAR", doc = "attempt_outcome.failure_domain", null = false }
size_bucket = { type = "VARCHAR", doc = "attempt_outcome.size_bucket", null = false }
gpu_count = { type = "DOUBLE", doc = "GPUs it held; NULL if not known", unit = "count" }
last_checkpoint_ts = { type = "TIMESTAMP", doc = "last checkpoint saved in the attempt; NULL if none is known" }
lost_source = { type = "VARCHAR", doc = "checkpoint (saved in it), start (its log reports none, and reports those of other times), unknown", null = false }
lost_lower_gpu_h = { type = "DOUBLE", doc = "GPU-hours lost at least; NULL where the GPUs are not known", unit = "h" }
lost_upper_gpu_h = { type = "DOUBLE", doc = "GPU-hours lost at most; equal to lost_lower_gpu_h where lost_source is not unknown", unit = "h" }
preemptor_job_id = { type = "VARCHAR", doc = "job it made room for; NULL if not known" }
preemptor_queue = { type = "VARCHAR", doc = "that job's queue, else its partition" }
preemptor_principal = { type = "VARCHAR", doc = "who submitted it" }
preemptor_source = { type = "VARCHAR", doc = "scheduler (it names it), inferred (it started on its nodes); NULL if not known" }
next_attempt = { type = "BIGINT", doc = "attempt in which the job started again; NULL if it has not", unit = "s" }
next_start_ts = { type = "TIMESTAMP", doc = "start of that" }
ready_ts = { type = "TIMESTAMP", doc = "when it worked again: first training step, else pods ready; NULL if not known" }
ready_source = { type = "VARCHAR", doc = "train_step or queue_event" }
queue_gap_s = { type = "DOUBLE", doc = "end to the next start", unit = "s" }
init_s = { type = "DOUBLE", doc = "next start to ready_ts", unit = "s" }

[params.preempt_window_s]
default = 120
doc = "s; who starts on the nodes of a preempted attempt within this took its place. Slurm lets a job go at once or after its grace time and then starts the other in the next scheduling cycle, a minute by default (sched_interval 60)."

[params.event_window_s]
default = 300
doc = "s; an eviction is that of the attempt which ends within this of it. Pods may take their grace period (30 s by default) and longer to go."
*/
WITH concerned AS (
    SELECT cluster, job_id, job_ts, unnest(attempts) AS attempt
    FROM job
    WHERE attempt_count > 1 OR final_state IN ('PREEMPTED', 'REQUEUED')
),
run AS (
    SELECT
        cluster, coalesce(het_job_id, job_id) AS job_id, attempt,
        min(start_ts) AS start_ts, max(coalesce(end_ts, observed_ts, start_ts)) AS until_ts,
        flatten(list(node_list) FILTER (node_list IS NOT NULL)) AS node_list,
        any_value(raw_job_id) AS raw_job_id
    FROM job_attempt
    WHERE (cluster, coalesce(het_job_id, job_id), attempt) IN (SELECT (cluster, job_id, attempt) FROM concerned)
    GROUP BY ALL
),
followed AS (
    SELECT
        run.*, job_ts,
        arg_min({'attempt': attempt, 'start_ts': start_ts, 'until_ts': until_ts}, start_ts)
            FILTER (start_ts IS NOT NULL) OVER later AS next,
        count(*) OVER later > 0 AS has_next
    FROM run
    JOIN concerned USING (cluster, job_id, attempt)
    WINDOW later AS (
        PARTITION BY cluster, job_id, job_ts ORDER BY attempt ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    )
),
cut AS (
    SELECT followed.* EXCLUDE (start_ts, until_ts), outcome.* EXCLUDE (cluster, job_id, attempt)
    FROM followed
    JOIN attempt_outcome AS outcome USING (cluster, job_id, attempt)
    WHERE outcome.start_ts IS NOT NULL AND state <> 'COMPLETED'
        AND (has_next OR state IN ('PREEMPTED', 'REQUEUED'))
),
saved AS (
    SELECT cluster, job_id, ts
    FROM train_event
    WHERE event = 'checkpoint_saved'
),
logged AS (
    SELECT cluster, job_id, ts FROM train_event
    UNION ALL
    SELECT cluster, job_id, ts FROM train_step WHERE time_basis = 'absolute'
),
checkpointed AS (
    SELECT cut.cluster, cut.job_id, cut.attempt, max(saved.ts) AS last_checkpoint_ts
    FROM cut
    JOIN saved ON saved.cluster = cut.cluster AND saved.job_id IN (cut.job_id, cut.raw_job_id)
        AND saved.ts BETWEEN cut.start_ts AND outcome_ts
    GROUP BY ALL
),
silent AS (
    SELECT DISTINCT cut.cluster, cut.job_id, cut.attempt
    FROM cut
    JOIN logged ON logged.cluster = cut.cluster AND logged.job_id IN (cut.job_id, cut.raw_job_id)
        AND logged.ts BETWEEN cut.start_ts AND outcome_ts
    WHERE EXISTS (
        FROM saved WHERE saved.cluster = cut.cluster AND saved.job_id IN (cut.job_id, cut.raw_job_id)
    )
),
named AS (
    SELECT cut.cluster, cut.job_id, cut.attempt,
        arg_min({'job_id': event.preemptor_job_id, 'uid': event.preemptor_uid}, (abs(epoch(event.ts - outcome_ts)), event.ts)) AS stated
    FROM cut
    JOIN queue_event AS event ON event.cluster = cut.cluster AND event.job_id = cut.job_id
        AND kind IN ('preempted', 'evicted') AND abs(epoch(event.ts - outcome_ts)) <= getvariable('event_window_s')
    WHERE event.preemptor_job_id IS NOT NULL OR event.preemptor_uid IS NOT NULL
    GROUP BY ALL
),
minute AS (
    SELECT
        cluster, job_id, attempt, outcome_ts, node_list,
        unnest(generate_series(
            date_trunc('minute', outcome_ts),
            outcome_ts + to_seconds(getvariable('preempt_window_s')), INTERVAL 1 MINUTE
        )) AS minute_ts
    FROM cut
    WHERE state = 'PREEMPTED' AND len(node_list) > 0
),
taker AS (
    SELECT minute.cluster, minute.job_id, minute.attempt, any_value(coalesce(new.het_job_id, new.job_id)) AS by_job_id
    FROM minute
    JOIN job_attempt AS new
        ON new.cluster = minute.cluster AND date_trunc('minute', new.start_ts) = minute_ts
        AND new.start_ts BETWEEN outcome_ts AND outcome_ts + to_seconds(getvariable('preempt_window_s'))
        AND new.submit_ts <= outcome_ts AND list_has_any(new.node_list, minute.node_list)
        AND coalesce(new.het_job_id, new.job_id) <> minute.job_id
    GROUP BY minute.cluster, minute.job_id, minute.attempt
    HAVING count(DISTINCT coalesce(new.het_job_id, new.job_id)) = 1
),
placed AS (
    SELECT
        cut.cluster, cut.job_id, cut.attempt,
        coalesce(stated.job_id, identified.job_id, stated.uid, by_job_id) AS preemptor_job_id,
        CASE WHEN stated IS NOT NULL THEN 'scheduler' WHEN by_job_id IS NOT NULL THEN 'inferred' END AS preemptor_source
    FROM cut
    LEFT JOIN named USING (cluster, job_id, attempt)
    LEFT JOIN taker USING (cluster, job_id, attempt)
    LEFT JOIN (
        SELECT cluster, raw_job_id, min(coalesce(het_job_id, job_id)) AS job_id
        FROM job_attempt
        WHERE raw_job_id IN (SELECT stated.uid FROM named)
        GROUP BY ALL
    ) AS identified ON identified.cluster = cut.cluster AND identified.raw_job_id = stated.uid
),
taker_job AS (
    SELECT
        placed.*,
        coalesce(queue, taking.partition) AS preemptor_queue,
        taking.principal AS preemptor_principal
    FROM placed
    LEFT JOIN (
        SELECT cluster, job_id, max(principal) AS principal, max(partition) AS partition
        FROM job
        WHERE (cluster, job_id) IN (SELECT (cluster, preemptor_job_id) FROM placed)
        GROUP BY ALL
    ) AS taking ON taking.cluster = placed.cluster AND taking.job_id = preemptor_job_id
    LEFT JOIN (
        SELECT cluster, job_id, max(coalesce(cluster_queue, queue)) AS queue
        FROM queue_event
        WHERE (cluster, job_id) IN (SELECT (cluster, preemptor_job_id) FROM placed)
        GROUP BY ALL
    ) AS queued ON queued.cluster = placed.cluster AND queued.job_id = preemptor_job_id
),
stepped AS (
    SELECT cut.cluster, cut.job_id, cut.attempt, min(step.ts) AS ts
    FROM cut
    JOIN train_step AS step ON step.cluster = cut.cluster AND step.job_id IN (cut.job_id, cut.raw_job_id)
        AND time_basis = 'absolute' AND step.ts BETWEEN next.start_ts AND next.until_ts
    GROUP BY ALL
),
readied AS (
    SELECT cut.cluster, cut.job_id, cut.attempt, min(event.ts) AS ts
    FROM cut
    JOIN queue_event AS event ON event.cluster = cut.cluster AND event.job_id = cut.job_id
        AND kind = 'pods_ready' AND event.ts BETWEEN next.start_ts AND next.until_ts
    GROUP BY ALL
),
joined AS (
    SELECT
        cut.*,
        last_checkpoint_ts,
        CASE
            WHEN last_checkpoint_ts IS NOT NULL THEN 'checkpoint'
            WHEN silent.job_id IS NOT NULL THEN 'start'
            ELSE 'unknown'
        END AS lost_source,
        gpu_count * epoch(outcome_ts - coalesce(last_checkpoint_ts, start_ts)) / 3600 AS lost_gpu_h,
        preemptor_job_id, preemptor_queue, preemptor_principal, preemptor_source,
        coalesce(stepped.ts, readied.ts) AS ready_ts,
        CASE WHEN stepped.ts IS NOT NULL THEN 'train_step' WHEN readied.ts IS NOT NULL THEN 'queue_event' END AS ready_source
    FROM cut
    LEFT JOIN checkpointed USING (cluster, job_id, attempt)
    LEFT JOIN silent USING (cluster, job_id, attempt)
    LEFT JOIN taker_job USING (cluster, job_id, attempt)
    LEFT JOIN stepped USING (cluster, job_id, attempt)
    LEFT JOIN readied USING (cluster, job_id, attempt)
)
SELECT
    cluster, job_id, attempt, job_ts, start_ts, outcome_ts AS end_ts, principal, account, partition, qos, state,
    failure_domain, size_bucket, gpu_count, last_checkpoint_ts, lost_source,
    CASE WHEN lost_source = 'unknown' THEN 0 * gpu_count ELSE lost_gpu_h END AS lost_lower_gpu_h,
    lost_gpu_h AS lost_upper_gpu_h,
    preemptor_job_id, preemptor_queue, preemptor_principal, preemptor_source,
    next.attempt AS next_attempt,
    next.start_ts AS next_start_ts,
    ready_ts,
    ready_source,
    epoch(next.start_ts - outcome_ts)::DOUBLE AS queue_gap_s,
    epoch(ready_ts - next.start_ts)::DOUBLE AS init_s
FROM joined
