/*
title = "A queue waits below its own quota"
domain = "performance"
kind = "quota_starved"
severity = "medium"
reviewed = "2026-11-30"
window = "all"
optional = ["queue_snapshot"]

flags = """
A queue whose jobs hold less of a GPU flavor than its nominal quota while its own jobs wait, at every observation over
min_duration_s or more, the unused part being at least min_unused_ratio of the quota and as large as its smallest
waiting job, where the queue tells how large that is. High from four times that duration. `lower` and `upper` are GPU-hours of own quota not
had.
"""
why = """
A nominal quota is what was promised: work that waits below it waits for others who borrow, for nodes that are
broken, or for nothing at all.
"""
looks_like = """
Waiting jobs that each need more than is unused: quiet where their size is known. A queue that was stopped: quiet. Jobs
that ask for another flavor than the unused one. Work that an admission check or a person holds back.
"""
misses = """
What happens between two observations: fetch quotas every few minutes. Queues of Slurm: its shares are weights,
not quotas (fair_share). Starvation shorter than min_duration_s. Queues whose count of waiting jobs no
record tells.
"""
todo = """
See quota_use and stranded_gpus: who borrows, and why free GPUs do not fit. With free GPUs in the fleet look at the
scheduler (reclaim and preemption settings, cohort, topology); without, at nodes out of service
(node_availability).
"""

[needs]
quota = "is_gpu AND nominal > 0 AND used IS NOT NULL AND pending_count IS NOT NULL"

[params.min_duration_s]
default = 3600
doc = "s; starvation that lasts less is a scheduling cycle, a reclaim in its grace period, a node that boots. Own choice: an hour."

[params.min_unused_ratio]
default = 0.1
doc = "ratio of the nominal quota that must be unused. Own choice: below a tenth it is what gangs leave over."

[params.max_gap_s]
default = 1800
doc = "s; observations further apart do not prove that it lasted in between. Six times a fetch interval of 5 minutes."
*/
WITH seen AS (
    SELECT
        cluster, queue_kind, queue, flavor, observed_ts,
        sum(nominal) AS nominal, sum(used) AS used, max(pending_count) AS pending_count,
        bool_or(coalesce(state, 'active') NOT ILIKE 'active%') AS is_stopped
    FROM quota
    WHERE is_gpu AND queue_kind IN ('cluster_queue', 'volcano', 'yunikorn', 'kai')
    GROUP BY ALL
),
local_queue AS (
    SELECT DISTINCT cluster, queue AS name, cluster_queue FROM quota WHERE queue_kind = 'local_queue'
),
waiting AS (
    SELECT
        snapshot.cluster, coalesce(cluster_queue, partition) AS queue, date_trunc('minute', ts) AS minute_ts,
        min(req_gpus) AS least_gpus
    FROM queue_snapshot AS snapshot
    LEFT JOIN local_queue
        ON local_queue.cluster = snapshot.cluster AND name = concat_ws('/', snapshot.account, snapshot.partition)
    WHERE state = 'PENDING' AND req_gpus > 0
    GROUP BY ALL
),
judged AS (
    SELECT
        seen.*, nominal - used AS unused, least_gpus,
        used < nominal AND pending_count > 0 AND NOT is_stopped
            AND nominal - used >= getvariable('min_unused_ratio') * nominal
            AND nominal - used >= coalesce(least_gpus, 1) AS is_starved,
        lag(observed_ts) OVER one AS before_ts
    FROM seen
    LEFT JOIN waiting ON waiting.cluster = seen.cluster AND waiting.queue = seen.queue
        AND minute_ts = date_trunc('minute', observed_ts)
    WINDOW one AS (PARTITION BY seen.cluster, queue_kind, seen.queue, flavor ORDER BY observed_ts)
),
numbered AS (
    SELECT *,
        count(*) FILTER (NOT coalesce(is_starved, false) OR before_ts IS NULL
            OR epoch(observed_ts - before_ts) > getvariable('max_gap_s'))
            OVER (PARTITION BY cluster, queue_kind, queue, flavor ORDER BY observed_ts) AS run
    FROM judged
),
-- A run may begin with the quiet observation that ended the one before: only starved ones count.
episode AS (
    SELECT
        cluster, queue_kind, queue, flavor,
        min(observed_ts) AS start_ts, max(observed_ts) AS end_ts,
        count(*) AS observation_count,
        min(unused) AS least_unused, avg(unused) AS mean_unused, max(nominal) AS nominal,
        max(pending_count) AS pending_count, min(least_gpus) AS least_gpus,
        min(observed_ts) + to_seconds(getvariable('min_duration_s')) AS due_ts,
        list(observed_ts ORDER BY observed_ts) AS times
    FROM numbered
    WHERE is_starved
    GROUP BY cluster, queue_kind, queue, flavor, run
    HAVING epoch(max(observed_ts) - min(observed_ts)) >= getvariable('min_duration_s')
)
SELECT
    concat_ws('/', cluster, queue_kind, queue, flavor, strftime(start_ts, '%Y-%m-%dT%H:%M:%S')) AS subject,
    least(0.95, 0.6 + 0.3 * mean_unused / nominal) AS score,
    if(epoch(end_ts - start_ts) >= 4 * getvariable('min_duration_s'), 'high', 'medium') AS severity,
    start_ts,
    end_ts,
    list_filter(times, lambda t: t >= due_ts)[1] AS detected_at,
    [cluster] AS cluster,
    least_unused * epoch(end_ts - start_ts) / 3600 AS lower,
    mean_unused * epoch(end_ts - start_ts) / 3600 AS upper,
    json_object(
        'quantity', 'GPU-hours of own quota not had while own jobs waited',
        'queue', queue,
        'queue_kind', queue_kind,
        'flavor', flavor,
        'nominal', nominal,
        'mean_unused', round(mean_unused, 2),
        'pending_jobs', pending_count,
        'smallest_waiting_gpus', least_gpus,
        'duration_s', epoch(end_ts - start_ts),
        'observations', observation_count,
        'action', 'see who borrows, and whether free GPUs fit'
    )::VARCHAR AS evidence
FROM episode
