/*
doc = "How far each rank stands behind the foremost rank of each of its process groups, by the sequence numbers in its dump, or of jobs without dumps those that PyTorch's watchdog printed, and who waits for whom there. Numbers of one group count the same operations on all its ranks, so no clock is needed. A lag in enqueued operations alone points to a host that stopped issuing, one in completed operations to a device or link; being behind proves nothing by itself, since ranks wait for each other (hang_rank)."
grain = ["cluster", "job_id", "attempt", "pg_name", "rank"]
sort = ["job_id", "pg_name", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
pg_name = { type = "VARCHAR", doc = "process group" }
pg_desc = { type = "VARCHAR", doc = "what the framework calls the group" }
rank = { type = "INTEGER", doc = "global rank" }
enqueued_lag_count = { type = "BIGINT", doc = "collectives enqueued by the foremost rank and not by this one; NULL where its dump does not say", unit = "count" }
completed_lag_count = { type = "BIGINT", doc = "collectives completed by the foremost rank and not by this one", unit = "count" }
pending_count = { type = "BIGINT", doc = "collectives this rank has enqueued and not completed", unit = "count" }
next_seq = { type = "BIGINT", doc = "sequence number of its oldest unfinished collective; NULL where none is pending" }
is_comparable = { type = "BOOLEAN", doc = "the numbers count collectives that all members share. False for groups that carry sends and receives or are named a pipeline (their ranks run ahead by design, and the recorder mixes both counts), and for groups known only by a number that each process gives out itself" }
is_awaited = { type = "BOOLEAN", doc = "another rank's oldest unfinished collective is one that this rank has not enqueued; NULL unless comparable" }
is_waiting = { type = "BOOLEAN", doc = "some dumped rank has not enqueued this rank's oldest unfinished collective; NULL unless comparable" }
is_stuck = { type = "BOOLEAN", doc = "this rank's oldest unfinished collective was enqueued by all dumped ranks and completed by one of them, but not here; NULL unless comparable" }
is_overtaken = { type = "BOOLEAN", doc = "another rank has completed what this rank has not even enqueued: its dump is older, or the operation needs only its root; NULL unless comparable" }
coverage_ratio = { type = "DOUBLE", doc = "ranks of the group that left a dump; NULL where its size is unknown", unit = "ratio" }
*/
-- Format 1.x dumps state no progress of groups, and a group with sends counts those in the same number:
-- there the entries tell, as far as the ring holds them.
WITH entry AS (
    SELECT
        cluster, job_id, attempt, rank, pg_name,
        bool_or(is_p2p) AS has_p2p,
        max(collective_seq_id) FILTER (NOT is_p2p) AS enqueued_seq,
        min(collective_seq_id) FILTER (NOT is_p2p AND state <> 'completed') AS unfinished_seq
    FROM collective
    GROUP BY ALL
),

-- The watchdog prints of the groups that ran out of time, and only where it did.
stated AS (
    SELECT
        cluster, job_id, attempt, rank, pg_name, pg_desc, pg_id, pg_size, last_enqueued_seq,
        last_completed_seq
    FROM collective_group
    UNION ALL
    SELECT
        w.cluster, w.job_id, w.attempt, w.rank, w.pg_name,
        max(w.pg_desc), NULL, NULL,
        arg_max(if(last_enqueued_seq < 0, NULL, last_enqueued_seq), (log_line, event_no)),
        arg_max(if(last_completed_seq < 0, NULL, last_completed_seq), (log_line, event_no))
    FROM nccl_log_event AS w
    ANTI JOIN collective_group USING (cluster, job_id, attempt)
    WHERE w.event = 'watchdog_state' AND w.rank IS NOT NULL AND w.pg_name IS NOT NULL
    GROUP BY ALL
),

progress AS (
    SELECT
        g.*,
        bool_or(coalesce(has_p2p, false)) OVER ranks
            OR regexp_matches(
                lower(coalesce(pg_desc, '')), '^(expert_)?pipe(line)?(_|$)|^(mesh_)?pp$'
            ) AS is_p2p,
        coalesce(pg_size IS NULL AND pg_name = pg_id::VARCHAR AND pg_id <> 0, false)
            AS is_numbered_locally,
        is_p2p OR (last_enqueued_seq IS NULL AND last_completed_seq IS NULL) AS from_entries,
        if(from_entries, enqueued_seq, last_enqueued_seq) AS enqueued,
        -- A group that has completed nothing yet states no number.
        if(
            from_entries,
            coalesce(unfinished_seq - 1, enqueued_seq),
            if(last_enqueued_seq IS NULL, NULL, coalesce(last_completed_seq, 0))
        ) AS completed
    FROM stated AS g
    LEFT JOIN entry USING (cluster, job_id, attempt, rank, pg_name)
    WINDOW ranks AS (PARTITION BY cluster, job_id, attempt, pg_name)
),

headed AS (
    SELECT
        *,
        enqueued IS NOT NULL AND NOT is_numbered_locally AS is_comparable,
        if(enqueued > completed, completed + 1, NULL) AS next_seq
    FROM progress
)

SELECT
    cluster, job_id, attempt, pg_name, pg_desc, rank,
    max(coalesce(last_enqueued_seq, enqueued)) OVER ranks
        - coalesce(last_enqueued_seq, enqueued) AS enqueued_lag_count,
    max(coalesce(last_completed_seq, completed)) OVER ranks
        - coalesce(last_completed_seq, completed) AS completed_lag_count,
    enqueued - completed AS pending_count,
    next_seq,
    is_comparable,
    if(is_comparable, coalesce(max(next_seq) OVER comparable > enqueued, false), NULL) AS is_awaited,
    if(is_comparable, coalesce(min(enqueued) OVER comparable < next_seq, false), NULL) AS is_waiting,
    if(
        is_comparable,
        coalesce(
            min(enqueued) OVER comparable >= next_seq
                AND max(completed) OVER comparable >= next_seq,
            false
        ),
        NULL
    ) AS is_stuck,
    if(is_comparable, max(completed) OVER comparable > enqueued, NULL) AS is_overtaken,
    count(*) OVER ranks / pg_size AS coverage_ratio
FROM headed
WINDOW
    ranks AS (PARTITION BY cluster, job_id, attempt, pg_name),
    comparable AS (PARTITION BY cluster, job_id, attempt, pg_name, is_comparable)
