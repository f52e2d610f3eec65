/*
doc = """
Who keeps a stopped job from going on: one row per rank of every job that left recorder dumps (or of
which the watchdog printed how far its ranks got), with the verdict. Ranks wait for each other in circles of groups, so being behind accuses nobody. Accused
is who is awaited, or stuck in what others finished, and waits for nobody itself.
"""
grain = ["cluster", "job_id", "attempt", "rank"]
time = "ts"
window = "all"
sort = ["job_id", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
rank = { type = "INTEGER", doc = "global rank" }
ts = { type = "TIMESTAMP", doc = "start_ts; else evidence_ts; 1970-01-01 where no recorder holds a time" }
has_dump = { type = "BOOLEAN", doc = "the rank left a dump, or its watchdog said how far it got" }
verdict = { type = "VARCHAR", doc = "culprit; victim (waits for another rank); in_flight (entered what all entered and nobody finished: a link, a switch or one of the devices, and the records do not say which); not_behind; not_evaluable" }
cause = { type = "VARCHAR", doc = "culprits: dead_gpu (issued work that its peers finished and its own device did not), blocked_host (stopped issuing; its device has finished all it was given), no_dump (its process left nothing, and others wait for it alone), collective_mismatch (called something else than its peers: a fault of the program)" }
reason = { type = "VARCHAR", doc = "what the verdict rests on, or why there is none" }
group_count = { type = "BIGINT", doc = "groups of several dumped ranks in which it could be compared", unit = "count" }
awaited_group_count = { type = "BIGINT", doc = "of these, groups whose members wait for it to enqueue", unit = "count" }
stuck_group_count = { type = "BIGINT", doc = "groups in which it has not finished what all entered and another rank finished", unit = "count" }
waiting_group_count = { type = "BIGINT", doc = "groups in which it waits for another rank, dumped or not", unit = "count" }
enqueued_lag_count = { type = "BIGINT", doc = "largest lag in enqueued collectives over these groups", unit = "count" }
completed_lag_count = { type = "BIGINT", doc = "largest lag in completed collectives over these groups", unit = "count" }
pg_desc = { type = "VARCHAR", doc = "group in which it is furthest behind, if awaited or stuck in any: what the framework calls it, or its name" }
start_ts = { type = "TIMESTAMP", doc = "when the job's oldest unfinished collective was enqueued; NULL where no recorder holds one" }
evidence_ts = { type = "TIMESTAMP", doc = "when the first of them had run out of its time limit, the occasion to dump; the newest entry's time where no limit is stated" }
dumped_rank_count = { type = "BIGINT", doc = "ranks of the job that left a dump", unit = "count" }
rank_count = { type = "BIGINT", doc = "ranks of the job as its groups list them", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "dumped_rank_count of rank_count", unit = "ratio" }
*/
-- One rank's list of each group: all list the same, and a group of the whole job has as many lists as ranks.
WITH listed AS (
    SELECT cluster, job_id, attempt, pg_name, arg_min(pg_ranks, rank) AS pg_ranks
    FROM collective_group
    WHERE len(pg_ranks) > 0
    GROUP BY ALL
),

member AS (
    SELECT cluster, job_id, attempt, pg_name, unnest(pg_ranks) AS rank FROM listed
    UNION
    SELECT cluster, job_id, attempt, pg_name, rank FROM collective_group_lag
),

dumped AS (
    SELECT DISTINCT cluster, job_id, attempt, rank, true AS has_dump FROM collective_group_lag
),

-- In flight: all dumped ranks of the group entered and none finished.
lag AS (
    SELECT
        *,
        coalesce(count(*) OVER ranks > 1 OR coverage_ratio < 1, false) AS has_peers,
        coalesce(
            next_seq IS NOT NULL AND NOT is_waiting AND NOT is_stuck
                AND NOT coalesce(is_awaited, false),
            false
        ) AS is_in_flight
    FROM collective_group_lag
    WHERE is_comparable
    WINDOW ranks AS (PARTITION BY cluster, job_id, attempt, pg_name)
),

group_missing AS (
    SELECT cluster, job_id, attempt, pg_name, bool_or(is_in_flight) AS is_held_up
    FROM lag
    WHERE coverage_ratio < 1
    GROUP BY ALL
),

mark AS (
    SELECT
        cluster, job_id, attempt, rank,
        count(*) AS group_count,
        count(*) FILTER (is_awaited) AS awaited_group_count,
        count(*) FILTER (is_stuck) AS stuck_group_count,
        count(*) FILTER (is_waiting OR (is_in_flight AND coverage_ratio < 1)) AS waiting_group_count,
        count(*) FILTER (is_in_flight AND coverage_ratio = 1) AS in_flight_group_count,
        count(*) FILTER (is_overtaken) AS overtaken_group_count,
        max(enqueued_lag_count) AS enqueued_lag_count,
        max(completed_lag_count) AS completed_lag_count,
        arg_max(
            coalesce(pg_desc, pg_name), (enqueued_lag_count + completed_lag_count, pg_name)
        ) FILTER (is_awaited OR is_stuck) AS pg_desc
    FROM lag
    WHERE has_peers
    GROUP BY ALL
),

missing AS (
    SELECT
        cluster, job_id, attempt, rank,
        count(*) FILTER (is_held_up) AS awaited_group_count
    FROM member
    JOIN group_missing USING (cluster, job_id, attempt, pg_name)
    LEFT JOIN dumped USING (cluster, job_id, attempt, rank)
    WHERE has_dump IS NULL
    GROUP BY ALL
),

mismatch AS (
    SELECT
        cluster, job_id, attempt, rank,
        arg_min(
            format('called {} as number {} of {}', call, collective_seq_id,
                   coalesce(pg_desc, pg_name)),
            (collective_seq_id, pg_name)
        ) AS odd_call
    FROM collective_mismatch
    WHERE is_odd_one_out
    GROUP BY ALL
),

-- A sender that still waits for a peer who is behind and never came is that peer's victim. Only sends
-- and receives say so: their groups have no common numbers.
p2p_wait AS (
    SELECT DISTINCT cluster, job_id, attempt, rank, peer_rank
    FROM collective
    WHERE is_p2p AND peer_rank IS NOT NULL AND state <> 'completed'
),

excused AS (
    SELECT DISTINCT w.cluster, w.job_id, w.attempt, w.rank, true AS waits_for_peer
    FROM p2p_wait AS w
    JOIN mark AS m
        ON (w.cluster, w.job_id, w.attempt, w.peer_rank)
            = (m.cluster, m.job_id, m.attempt, m.rank)
    ANTI JOIN p2p_wait AS b
        ON (b.cluster, b.job_id, b.attempt, b.rank, b.peer_rank)
            = (w.cluster, w.job_id, w.attempt, w.peer_rank, w.rank)
    WHERE m.awaited_group_count + m.stuck_group_count > 0 AND m.waiting_group_count = 0
),

pending AS (
    SELECT cluster, job_id, attempt, ts, timeout_s, state <> 'completed' AND NOT is_p2p AS is_pending
    FROM collective
    UNION ALL
    SELECT cluster, job_id, attempt, ts - to_seconds(duration_s), duration_s, true
    FROM nccl_log_event
    WHERE event = 'watchdog_timeout' AND ts IS NOT NULL AND duration_s IS NOT NULL
),

stopped AS (
    SELECT
        cluster, job_id, attempt,
        min(ts) FILTER (is_pending) AS start_ts,
        coalesce(
            min(ts + to_microseconds(round(timeout_s * 1e6)::BIGINT)) FILTER (is_pending), max(ts)
        ) AS evidence_ts
    FROM pending
    GROUP BY ALL
),

judged AS (
    SELECT
        r.*,
        coalesce(has_dump, false) AS has_dump,
        odd_call,
        coalesce(k.group_count, 0) AS group_count,
        coalesce(k.awaited_group_count, m.awaited_group_count, 0) AS awaited_group_count,
        coalesce(stuck_group_count, 0) AS stuck_group_count,
        coalesce(waiting_group_count, 0) AS waiting_group_count,
        coalesce(in_flight_group_count, 0) AS in_flight_group_count,
        coalesce(waits_for_peer, false) AS waits_for_peer,
        -- In a live job each rank is dumped at its own instant, and the earlier one seems late.
        2 * overtaken_group_count > k.awaited_group_count AS is_older_dump,
        enqueued_lag_count, completed_lag_count, pg_desc, start_ts, evidence_ts
    FROM (SELECT DISTINCT cluster, job_id, attempt, rank FROM member) AS r
    LEFT JOIN dumped USING (cluster, job_id, attempt, rank)
    LEFT JOIN mark AS k USING (cluster, job_id, attempt, rank)
    LEFT JOIN missing AS m USING (cluster, job_id, attempt, rank)
    LEFT JOIN mismatch USING (cluster, job_id, attempt, rank)
    LEFT JOIN excused USING (cluster, job_id, attempt, rank)
    LEFT JOIN stopped USING (cluster, job_id, attempt)
),

caused AS (
    SELECT
        *,
        CASE
            WHEN odd_call IS NOT NULL THEN 'collective_mismatch'
            WHEN bool_or(odd_call IS NOT NULL) OVER job THEN NULL
            WHEN NOT has_dump THEN if(awaited_group_count > 0, 'no_dump', NULL)
            WHEN waiting_group_count > 0 OR waits_for_peer OR is_older_dump THEN NULL
            WHEN stuck_group_count > 0 THEN 'dead_gpu'
            WHEN awaited_group_count > 0 THEN 'blocked_host'
        END AS cause
    FROM judged
    WINDOW job AS (PARTITION BY cluster, job_id, attempt)
),

concluded AS (
    SELECT
        *,
        CASE
            WHEN cause IS NOT NULL THEN 'culprit'
            WHEN NOT has_dump OR group_count = 0 OR is_older_dump THEN 'not_evaluable'
            WHEN waiting_group_count > 0 OR waits_for_peer THEN 'victim'
            WHEN in_flight_group_count > 0 AND count(cause) OVER job = 0 THEN 'in_flight'
            ELSE 'not_behind'
        END AS verdict
    FROM caused
    WINDOW job AS (PARTITION BY cluster, job_id, attempt)
)

SELECT
    cluster, job_id, attempt, rank,
    coalesce(start_ts, evidence_ts, TIMESTAMP '1970-01-01') AS ts,
    has_dump, verdict, cause,
    CASE
        WHEN cause = 'collective_mismatch' THEN odd_call
        WHEN cause = 'no_dump'
            THEN format('left no dump, and {} groups wait for nobody else', awaited_group_count)
        WHEN cause = 'dead_gpu'
            THEN format('in {} of {} groups its device has not finished what another rank finished',
                        stuck_group_count, group_count)
        WHEN cause = 'blocked_host'
            THEN format('{} of {} groups wait for it to enqueue, and it waits for nobody',
                        awaited_group_count, group_count)
        WHEN NOT has_dump THEN 'left no dump, and nobody waits for it alone'
        WHEN group_count = 0 THEN 'no group in which its numbers could be compared'
        WHEN is_older_dump THEN 'its dump is older than those of its peers'
        WHEN waiting_group_count > 0
            THEN format('waits for another rank in {} of {} groups', waiting_group_count, group_count)
        WHEN waits_for_peer THEN 'waits for a send or receive of a rank that is behind'
        WHEN verdict = 'in_flight'
            THEN format('in {} of {} groups everyone entered and nobody finished',
                        in_flight_group_count, group_count)
    END AS reason,
    group_count, awaited_group_count, stuck_group_count, waiting_group_count,
    enqueued_lag_count, completed_lag_count, pg_desc,
    start_ts, evidence_ts,
    count(*) FILTER (has_dump) OVER job AS dumped_rank_count,
    count(*) OVER job AS rank_count,
    dumped_rank_count / rank_count AS coverage_ratio
FROM concluded
WINDOW job AS (PARTITION BY cluster, job_id, attempt)
