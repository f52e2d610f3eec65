/*
title = "A job stands still, and these ranks keep it from going on"
domain = "performance"
kind = "hang"
severity = "high"
reviewed = "2026-11-30"
window = "all"
optional = [
    "collective", "collective_group", "collective_perf", "comm_function_count", "comm_state",
    "gpu_event", "gpu_identity", "gpu_link_sample", "gpu_sample", "inventory_gpu", "job_attempt",
    "nccl_log_event", "rank_map", "step_sample", "xid_policy",
]
one_of = ["collective_group", "comm_state", "nccl_log_event"]

flags = """
Ranks that the others wait for and that wait for nobody themselves, by the sequence numbers in the
recorder dumps or watchdog lines of a stopped job (hang_rank) or by the counts of its monitor, unchanged for five minutes
(comm_stall). `cause` in the evidence is dead_gpu (issued work that its peers finished and its own device
did not), blocked_host (stopped issuing, its device idle), no_dump (its process left nothing, and others
wait for it alone), dead_process (the monitor declares it dead or gets no answer) or collective_mismatch
(called another operation or size than its peers: a fault of the program, not of the machine). One
finding per job and cause.
"""
why = """
A hang holds every GPU of the job until a time limit of ten minutes to hours, and the rank that
reports it is a victim: it waited longest. The node at fault goes back into the pool unless named.
"""
looks_like = """
A dump asked for while the job ran: ranks are dumped at differing instants and seem late; a rank whose
peers have finished what it has not begun is left out for that reason, one that is late by less is not.
A debugger or profiler that holds one process. A rank that writes a checkpoint or compiles for longer
than the time limit, or than five minutes between monitor snapshots: the host is blocked, rightly.
"""
misses = """
Everyone entered and nobody finished (hang_rank says in_flight): a dead link or switch names no rank.
Groups that mix sends with collectives, and pipelines, whose numbers cannot be compared; a job that has
no other groups. A rank stuck in a send that no collective waits for. The second of two faults on one
chain of waiting. Dumps of format 1.x of which only the number of each process's groups is known.
Jobs that died without any dump and without a monitor. Of watchdog lines only ranks that printed one
are known: a host that is blocked prints none. The monitor counts what was issued, never what
was finished: it does not tell a dead GPU from a slow one.
"""
todo = """
dead_gpu: look for XID and ECC events of that GPU, drain the node. blocked_host: get the stack of the
process before it is killed (py-spy, gdb); look at storage, network file systems and memory of the
host. no_dump and dead_process: look for the process's exit, the out-of-memory killer, XID events
and the node's state.
collective_mismatch: compare the code path of the named rank with its peers; no hardware is at fault.
"""
*/
WITH verdict AS (
    SELECT
        cluster, job_id, attempt, cause, 'rank ' || rank AS accused, rank, NULL AS node,
        NULL AS gpu_uuid, start_ts, evidence_ts, coverage_ratio,
        {'rank': rank, 'process': NULL, 'reason': reason, 'group': pg_desc,
         'enqueued_lag_count': enqueued_lag_count,
         'completed_lag_count': completed_lag_count} AS figures
    FROM hang_rank
    WHERE verdict = 'culprit'
    UNION ALL
    SELECT
        cluster, job_id, attempt, cause, process, rank, node, gpu_uuid, since_ts, ts,
        coverage_ratio,
        {'rank': rank, 'process': process,
         'reason': format('unchanged since {} in {} communicators', since_ts, behind_comm_count),
         'group': comm_id, 'enqueued_lag_count': lag_count, 'completed_lag_count': NULL}
    FROM comm_stall
    WHERE verdict = 'culprit'
),

accused AS (
    SELECT
        v.* REPLACE (
            coalesce(v.node, c.node) AS node,
            coalesce(v.gpu_uuid, c.gpu_uuid) AS gpu_uuid
        ),
        c.summary AS root_cause
    FROM verdict AS v
    LEFT JOIN root_cause AS c
        ON c.kind = 'hang' AND c.cluster = v.cluster AND c.job_id = v.job_id
        AND c.attempt = v.attempt AND c.accused = v.accused AND c.start_ts = v.start_ts
),

hung AS (
    SELECT
        cluster, job_id, attempt, cause,
        list(DISTINCT rank ORDER BY rank) FILTER (rank IS NOT NULL) AS ranks,
        list(DISTINCT node ORDER BY node) FILTER (node IS NOT NULL) AS nodes,
        list(DISTINCT gpu_uuid ORDER BY gpu_uuid) FILTER (gpu_uuid IS NOT NULL) AS gpus,
        to_json(list(
            {'figures': figures, 'root_cause': root_cause} ORDER BY rank, figures.process
        )) AS rank_evidence,
        min(start_ts) AS start_ts,
        min(evidence_ts) AS evidence_ts,
        min(coverage_ratio) AS coverage_ratio
    FROM accused
    GROUP BY ALL
)

SELECT
    concat_ws('/', cluster, job_id, attempt, cause) AS subject,
    least(coverage_ratio, 1) AS score,
    coalesce(start_ts, evidence_ts, TIMESTAMP '1970-01-01') AS start_ts,
    coalesce(evidence_ts, TIMESTAMP '1970-01-01') AS end_ts,
    coalesce(evidence_ts, TIMESTAMP '1970-01-01') AS detected_at,
    [cluster] AS cluster,
    nodes AS node,
    gpus AS gpu_uuid,
    ranks AS rank,
    [job_id] AS job_id,
    json_object(
        'cause', cause,
        'ranks', rank_evidence,
        'attempt', attempt,
        'coverage_ratio', round(coverage_ratio, 4),
        'time_basis', if(evidence_ts IS NULL, 'relative', 'absolute')
    )::VARCHAR AS evidence
FROM hung
