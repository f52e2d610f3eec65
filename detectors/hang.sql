/*
title = "A job stands still, and these ranks keep it from going on"
domain = "performance"
kind = "hang"
severity = "high"
reviewed = "2026-11-30"
window = "all"
optional = ["collective"]

flags = """
Ranks that the others wait for and that wait for nobody themselves, by the sequence numbers in the
recorder dumps of a stopped job. `cause` in the evidence is dead_gpu (issued work that its peers
finished and its own device did not), blocked_host (stopped issuing, its device idle), no_dump (its
process left nothing, and others wait for it alone) or collective_mismatch (called another operation or
size than its peers: a fault of the program, not of the machine). One finding per job and cause.
"""
why = """
A hang holds every GPU of the job until a time limit of ten minutes to hours, and the rank that
reports it is a victim: it waited longest. The node at fault goes back into the pool unless named.
"""
looks_like = """
A dump asked for while the job ran: ranks are dumped at differing instants and seem late; a rank whose
peers have finished what it has not begun is left out for that reason, one that is late by less is not.
A debugger or profiler that holds one process. A rank that writes a checkpoint or compiles for longer
than the time limit: the host is blocked, rightly.
"""
misses = """
Everyone entered and nobody finished (hang_rank says in_flight): a dead link or switch names no rank.
Groups that mix sends with collectives, and pipelines, whose numbers cannot be compared; a job that has
no other groups. A rank stuck in a send that no collective waits for. The second of two faults on one
chain of waiting. Dumps of format 1.x of which only the number of each process's groups is known.
Jobs that died without any dump.
"""
todo = """
dead_gpu: look for XID and ECC events of that GPU, drain the node. blocked_host: get the stack of the
process before it is killed (py-spy, gdb); look at storage, network file systems and memory of the
host. no_dump: look for the process's exit, the out-of-memory killer and the node's state.
collective_mismatch: compare the code path of the named rank with its peers; no hardware is at fault.
"""
*/
WITH hung AS (
    SELECT
        cluster, job_id, attempt, cause,
        list(rank ORDER BY rank) AS ranks,
        to_json(list(
            {'rank': rank, 'reason': reason, 'group': pg_desc,
             'enqueued_lag_count': enqueued_lag_count, 'completed_lag_count': completed_lag_count}
            ORDER BY rank
        )) AS rank_evidence,
        min(start_ts) AS start_ts,
        min(evidence_ts) AS evidence_ts,
        min(dumped_rank_count) AS dumped_rank_count,
        min(rank_count) AS rank_count,
        min(coverage_ratio) AS coverage_ratio
    FROM hang_rank
    WHERE verdict = 'culprit'
    GROUP BY cluster, job_id, attempt, cause
)

SELECT
    concat_ws('/', cluster, job_id, attempt, cause) AS subject,
    coverage_ratio AS score,
    coalesce(start_ts, evidence_ts, TIMESTAMP '1970-01-01') AS start_ts,
    coalesce(evidence_ts, TIMESTAMP '1970-01-01') AS end_ts,
    coalesce(evidence_ts, TIMESTAMP '1970-01-01') AS detected_at,
    [cluster] AS cluster,
    ranks AS rank,
    [job_id] AS job_id,
    json_object(
        'cause', cause,
        'ranks', rank_evidence,
        'attempt', attempt,
        'dumped_rank_count', dumped_rank_count,
        'rank_count', rank_count,
        'coverage_ratio', round(coverage_ratio, 4),
        'time_basis', if(evidence_ts IS NULL, 'relative', 'absolute')
    )::VARCHAR AS evidence
FROM hung
