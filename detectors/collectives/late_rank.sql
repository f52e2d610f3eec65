/*
title = "In a short trace, collectives wait for a rank that computes longer"
domain = "performance"
kind = "slow_gpu"
severity = "low"
reviewed = "2026-11-30"

flags = """
A rank that arrives last in half of its collectives or more, for which the others wait 1 % of the steps'
time or more, and whose compute takes at least 1.04 times that of its peers. Only where `straggler_rank`
cannot judge: a profiler's trace holds two to ten steps, that detector wants twenty.
"""
why = """
A profiler run is often all there is of a slow job. Kernels of collectives last as long as their members
wait, so it holds who was late and what that cost, without comparing clocks of two hosts.
"""
looks_like = """
Few steps: chance may do it, hence `low`. A rank with more work by design, as a later pipeline stage whose
trace states no stage, or one that loads data or logs. Profiling that is on for one rank only.
"""
misses = """
Ranks without a trace. Ranks that are late by their host or their data, and those to which a pipeline
carries somebody else's delay: `arrival_rank_day` calls both `late` and accuses nobody. Steps in which
ranks recorded different numbers of collectives. Slowness inside collectives (links, switches).
"""
todo = """
Trace twenty steps or more of all ranks, or keep step records, and see whether it is the same rank.
Compare its kernels with those of a peer: all longer alike point to clocks, memory-bound ones to memory.
"""
*/
SELECT
    concat_ws('/', a.cluster, a.job_id, a.attempt, a.rank, a.day_ts::DATE) AS subject,
    a.last_ratio AS score,
    s.start_ts,
    s.end_ts,
    s.end_ts AS detected_at,
    [a.cluster] AS cluster,
    if(s.node IS NULL, [], [s.node]) AS node,
    if(s.gpu_uuid IS NULL, [], [s.gpu_uuid]) AS gpu_uuid,
    [a.rank] AS rank,
    [a.job_id] AS job_id,
    json_object(
        'quantity', 'compute time over the median of peers',
        'compute_ratio', round(a.compute_ratio, 4),
        'last_ratio', round(a.last_ratio, 4),
        'caused_ratio', round(a.caused_ratio, 4),
        'collective_count', a.collective_count,
        'step_count', a.step_count,
        'coverage_ratio', round(a.coverage_ratio, 4),
        'attempt', a.attempt,
        'time_basis', s.time_basis
    )::VARCHAR AS evidence
FROM arrival_rank_day a
JOIN step_straggler s USING (cluster, job_id, attempt, rank, day_ts)
WHERE a.verdict = 'slow' AND s.verdict = 'not_evaluable'
