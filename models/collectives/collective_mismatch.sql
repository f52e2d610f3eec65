/*
doc = "Ranks that disagree on what the collective with one number in one group is: another operation, element type, or size where sizes must agree. Programs that take different paths on different ranks do this; the collective then hangs or mixes data. Only what had not completed on some rank, since that is what a hang is about. One row per rank of such a collective."
grain = ["cluster", "job_id", "attempt", "pg_name", "collective_seq_id", "rank"]
sort = ["job_id", "pg_name", "collective_seq_id", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
pg_name = { type = "VARCHAR", doc = "process group" }
pg_desc = { type = "VARCHAR", doc = "what the framework calls the group" }
collective_seq_id = { type = "BIGINT", doc = "number of the collective in its group" }
rank = { type = "INTEGER", doc = "global rank" }
call = { type = "VARCHAR", doc = "what this rank called: operation, element types and bytes in (bytes only where all ranks must pass the same); calls issued as one under one number are joined by +" }
is_odd_one_out = { type = "BOOLEAN", doc = "fewer ranks made this call than another one; where no call has the most, all are" }
call_rank_count = { type = "BIGINT", doc = "ranks that made this call", unit = "count" }
rank_count = { type = "BIGINT", doc = "ranks whose recorders hold the collective", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "rank_count of the ranks of the group; NULL where its size is unknown", unit = "ratio" }
ts = { type = "TIMESTAMP", doc = "when this rank enqueued it" }
timeout_s = { type = "DOUBLE", doc = "after this the watchdog gives the job up", unit = "s" }
*/
WITH entry AS (
    SELECT
        *,
        -- Gathers and scatters may be uneven, and only the forms on one tensor must not be;
        -- an all-to-all and a rooted gather are uneven by design.
        operation IN ('all_reduce', 'broadcast', 'reduce')
            OR (
                operation IN ('all_gather', 'reduce_scatter')
                AND regexp_matches(lower(profiling_name), '_base|_tensor')
            ) AS is_even,
        concat_ws(
            ' ', operation, array_to_string(input_dtypes, ','),
            if(is_even, input_bytes, NULL)::VARCHAR
        ) AS part
    FROM collective
    WHERE NOT is_p2p AND collective_seq_id IS NOT NULL
        -- Numbers that each process gives out itself name other groups on other ranks.
        AND NOT (pg_size IS NULL AND pg_name = pg_id::VARCHAR AND pg_id <> 0)
),

-- The oldest number in a ring may have lost some of its calls.
call AS (
    SELECT
        cluster, job_id, attempt, pg_name, collective_seq_id, rank,
        max(pg_desc) AS pg_desc,
        max(pg_size) AS pg_size,
        string_agg(part, ' + ' ORDER BY record_id, part) AS call,
        count(*) AS part_count,
        bool_and(state = 'completed') AS is_completed,
        min(ts) AS ts,
        min(timeout_s) AS timeout_s,
        collective_seq_id = min(collective_seq_id) OVER held AS is_oldest
    FROM entry
    GROUP BY cluster, job_id, attempt, pg_name, collective_seq_id, rank
    WINDOW held AS (PARTITION BY cluster, job_id, attempt, pg_name, rank)
),

whole AS (
    SELECT *
    FROM call
    WINDOW same_number AS (PARTITION BY cluster, job_id, attempt, pg_name, collective_seq_id)
    QUALIFY NOT is_oldest OR part_count = max(part_count) OVER same_number
),

compared AS (
    SELECT *, count(*) OVER same_call AS call_rank_count
    FROM whole
    WINDOW same_call AS (
        PARTITION BY cluster, job_id, attempt, pg_name, collective_seq_id, call
    )
),

judged AS (
    SELECT
        *,
        count(*) OVER same_number AS rank_count,
        max(call_rank_count) OVER same_number AS most,
        min(call) OVER same_number <> max(call) OVER same_number AS differs,
        bool_and(is_completed) OVER same_number AS all_completed
    FROM compared
    WINDOW same_number AS (PARTITION BY cluster, job_id, attempt, pg_name, collective_seq_id)
),

majority AS (
    SELECT
        *,
        count(DISTINCT call) FILTER (call_rank_count = most) OVER same_number AS leading_count
    FROM judged
    WHERE differs AND NOT all_completed
    WINDOW same_number AS (PARTITION BY cluster, job_id, attempt, pg_name, collective_seq_id)
)

SELECT
    cluster, job_id, attempt, pg_name, pg_desc, collective_seq_id, rank, call,
    call_rank_count < most OR leading_count > 1 AS is_odd_one_out,
    call_rank_count,
    rank_count,
    rank_count / pg_size AS coverage_ratio,
    ts,
    timeout_s
FROM majority
