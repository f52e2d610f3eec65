/*
doc = """
Processes that stand still while others have gone on and wait, or that no longer answer, by snapshots of
the library's monitor (RAS). Counts of one snapshot are read one after the other and differ by work in
flight, so a lag only counts when later snapshots show the same counts of this rank and of the foremost
one for min_stall_s. A row when that is first certain.
"""
grain = ["cluster", "job_id", "attempt", "process", "ts"]
time = "ts"
lookback = "1d"
sort = ["job_id", "process"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job; `unknown` where nobody stated it" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
process = { type = "VARCHAR", doc = "address/pid as the monitor prints it, or communicator#rank where the snapshot names no process" }
ts = { type = "TIMESTAMP", doc = "snapshot at which it was first certain" }
since_ts = { type = "TIMESTAMP", doc = "first snapshot that showed the same, at most a day before" }
node = { type = "VARCHAR", doc = "host, by name where rank_identity knows it: the monitor prints an address" }
pid = { type = "BIGINT", doc = "process on that host" }
nvml_device = { type = "INTEGER", doc = "its device as the driver numbers it" }
rank = { type = "INTEGER", doc = "global rank, where rank_identity knows it" }
gpu_uuid = { type = "VARCHAR", doc = "its GPU, where rank_identity knows it" }
comm_id = { type = "VARCHAR", doc = "communicator in which it is furthest behind" }
comm_rank = { type = "INTEGER", doc = "its rank there" }
verdict = { type = "VARCHAR", doc = "culprit, or victim (behind, but in another communicator it waits for somebody behind it)" }
cause = { type = "VARCHAR", doc = "dead_process (declared dead, or does not answer in two snapshots), blocked_host (answers, and has not issued what others have)" }
lag_count = { type = "BIGINT", doc = "collectives issued by the foremost rank and not by it; NULL for those that do not answer", unit = "count" }
behind_comm_count = { type = "BIGINT", doc = "communicators in which it is behind", unit = "count" }
awaited_by_count = { type = "BIGINT", doc = "ranks that have gone further in that communicator; NULL for those that do not answer", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "ranks of that communicator that the snapshot shows", unit = "ratio" }

[params.min_stall_s]
default = 300
doc = "s without a single collective, of this rank and the foremost. Half of the 10 minutes after which PyTorch's watchdog gives a job up by default; steps of the public traces take 2 to 50 s."
*/
WITH total AS (
    SELECT
        cluster, job_id, attempt, comm_id, comm_rank, ts,
        sum(op_count)::BIGINT AS ops,
        max(rank_count) AS rank_count,
        max(n_ranks) AS n_ranks
    FROM comm_function_count
    WHERE NOT starts_with(comm_id, 'group:')
    GROUP BY ALL
),

state AS (
    SELECT
        cluster, job_id, attempt, comm_id, comm_rank, ts, node, pid, nvml_device, n_ranks,
        coalesce(is_dead, false) AS is_dead,
        coalesce(is_missing, false) OR coalesce(is_unresponsive, false) AS is_silent,
        coalesce(rank_count, 1) AS rank_count
    FROM comm_state
    WHERE NOT starts_with(comm_id, 'group:')
),

seen AS (
    SELECT
        coalesce(s.cluster, t.cluster) AS cluster,
        coalesce(s.job_id, t.job_id) AS job_id,
        coalesce(s.attempt, t.attempt) AS attempt,
        coalesce(s.comm_id, t.comm_id) AS comm_id,
        coalesce(s.comm_rank, t.comm_rank) AS comm_rank,
        coalesce(s.ts, t.ts) AS ts,
        node, pid, nvml_device, ops,
        coalesce(t.n_ranks, s.n_ranks) AS n_ranks,
        coalesce(t.rank_count, s.rank_count) AS rank_count,
        coalesce(is_dead, false) AS is_dead,
        coalesce(is_silent, false) AS is_silent
    FROM state AS s
    FULL JOIN total AS t
        ON (s.cluster, s.job_id, s.attempt, s.comm_id, s.comm_rank, s.ts)
            = (t.cluster, t.job_id, t.attempt, t.comm_id, t.comm_rank, t.ts)
),

placed AS (
    SELECT
        *,
        max(ops) OVER snapshot AS most_ops,
        sum(rank_count) OVER snapshot AS shown_ranks,
        coalesce(sum(rank_count) OVER ahead, 0)::BIGINT AS awaited_by_count
    FROM seen
    WINDOW
        snapshot AS (PARTITION BY cluster, job_id, attempt, comm_id, ts),
        ahead AS (
            PARTITION BY cluster, job_id, attempt, comm_id, ts ORDER BY ops DESC NULLS LAST
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP
        )
),

stepped AS (
    SELECT
        *,
        (ops, most_ops) IS DISTINCT FROM (lag(ops) OVER own, lag(most_ops) OVER own) AS has_moved,
        is_dead OR (is_silent AND coalesce(lag(is_silent) OVER own, false)) AS is_gone
    FROM placed
    WHERE comm_rank >= 0
    WINDOW own AS (PARTITION BY cluster, job_id, attempt, comm_id, comm_rank ORDER BY ts)
),

run AS (
    SELECT *, count(*) FILTER (has_moved) OVER own AS run_no
    FROM stepped
    WINDOW own AS (PARTITION BY cluster, job_id, attempt, comm_id, comm_rank ORDER BY ts)
),

still AS (
    SELECT
        *,
        min(ts) OVER same AS since_ts,
        is_gone
            OR (ops < most_ops AND since_ts <= ts - to_seconds(getvariable('min_stall_s')))
            AS is_stalled
    FROM run
    WINDOW same AS (PARTITION BY cluster, job_id, attempt, comm_id, comm_rank, run_no)
),

compared AS (
    SELECT
        *,
        if(
            node IS NULL OR pid IS NULL, concat_ws('#', comm_id, comm_rank), concat_ws('/', node, pid)
        ) AS process,
        -- Ahead of one who stands still, or together with one who is gone: it waits there.
        NOT is_gone
            AND (coalesce(ops > min(ops) FILTER (is_stalled) OVER snapshot, false)
                OR bool_or(is_gone) OVER snapshot) AS is_waiting
    FROM still
    WINDOW snapshot AS (PARTITION BY cluster, job_id, attempt, comm_id, ts)
),

process AS (
    SELECT
        cluster, job_id, attempt, process, ts,
        min(node) AS node, min(pid) AS pid, min(nvml_device) AS nvml_device,
        bool_or(is_gone) AS is_gone,
        bool_or(is_stalled) AS is_stalled,
        bool_or(is_waiting) AS is_waiting,
        min(since_ts) FILTER (is_stalled) AS since_ts,
        arg_max(comm_id, (is_stalled, most_ops - ops, comm_id)) AS comm_id,
        arg_max(comm_rank, (is_stalled, most_ops - ops, comm_id)) AS comm_rank,
        arg_max(awaited_by_count, (is_stalled, most_ops - ops, comm_id)) AS awaited_by_count,
        arg_max(if(n_ranks >= shown_ranks, shown_ranks / nullif(n_ranks, 0), NULL), (is_stalled, most_ops - ops, comm_id)) AS coverage_ratio,
        max(most_ops - ops) FILTER (is_stalled) AS lag_count,
        count(*) FILTER (is_stalled) AS behind_comm_count
    FROM compared
    GROUP BY ALL
),

first AS (
    SELECT *
    FROM process
    WINDOW own AS (PARTITION BY cluster, job_id, attempt, process ORDER BY ts)
    QUALIFY is_stalled AND NOT coalesce(lag(is_stalled) OVER own, false)
)

SELECT
    f.cluster, f.job_id, f.attempt, process, ts, since_ts,
    coalesce(r.node, f.node) AS node,
    coalesce(r.pid, f.pid) AS pid,
    coalesce(r.nvml_device, f.nvml_device) AS nvml_device,
    r.rank, r.gpu_uuid, f.comm_id, f.comm_rank,
    if(is_waiting, 'victim', 'culprit') AS verdict,
    CASE WHEN is_waiting THEN NULL WHEN is_gone THEN 'dead_process' ELSE 'blocked_host' END AS cause,
    if(is_gone, NULL, lag_count) AS lag_count,
    behind_comm_count,
    if(is_gone, NULL, awaited_by_count) AS awaited_by_count,
    coverage_ratio
FROM first AS f
-- rank_identity keeps the 14 digits that all sources have, and the host's name for its address.
LEFT JOIN rank_identity AS r
    ON (f.cluster, f.job_id, f.attempt, left(f.comm_id, 16), f.comm_rank)
        = (r.cluster, r.job_id, r.attempt, r.comm_key, r.comm_rank)
