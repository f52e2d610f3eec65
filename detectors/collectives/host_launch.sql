/*
title = "GPUs of a job idle because their hosts issue work late"
domain = "performance"
kind = "host_launch"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A job of which ranks idle since the host had not issued work yet, for 5 % of the steps' time or more, mean
over 20 steps in a row, at least three of which waited that long. One finding per job and day. It names
ranks and nodes where fewer than half of the ranks that record such a wait do; where half or more do, it
is the job's and accuses none.
"""
why = """
Kernels that are short, or a host that is slow, leave the GPU idle between them. One such host holds up
all ranks; telemetry shows a busy GPU all the same, since its samples are longer than the gaps.
"""
looks_like = """
Profiling or synchronous debugging (`CUDA_LAUNCH_BLOCKING`), on for one rank or all. Just-in-time
compilation of many shapes. Small models, whose kernels are short by nature.
"""
misses = """
Idleness that no record of the rank shows (`launch_s` is NULL: reported as not evaluable when no job
records it); fewer than 20 steps of a day; less than 5 %; pauses in one or two of 20 steps. Which thread
or process is in the way.
"""
todo = """
Named ranks: look at CPU load, frequency governor, pinning and co-tenants of their nodes. The whole job:
CUDA graphs, larger micro-batches or fused kernels; collect garbage at a fixed step in all ranks.
"""

[needs]
host_wait_rank_day = "wait = 'launch'"

[params.high_ratio]
default = 0.20
doc = "ratio of the steps' time from which severity is high: four times what makes a finding. Own choice."
*/
SELECT
    concat_ws('/', cluster, job_id, attempt, day_ts::DATE) AS subject,
    max(worst_ratio) AS score,
    if(max(worst_ratio) >= getvariable('high_ratio'), 'high', 'medium') AS severity,
    min(slow_start_ts) AS start_ts,
    max(slow_end_ts) AS end_ts,
    min(evidence_ts) AS detected_at,
    [cluster] AS cluster,
    if(is_job_wide, [], list(DISTINCT node ORDER BY node) FILTER (node IS NOT NULL)) AS node,
    if(is_job_wide, [], list(DISTINCT gpu_uuid ORDER BY gpu_uuid) FILTER (gpu_uuid IS NOT NULL)) AS gpu_uuid,
    if(is_job_wide, [], list(rank ORDER BY rank)) AS rank,
    [job_id] AS job_id,
    json_object(
        'quantity', 'GPU idle for want of issued work by the length of the job''s step',
        'is_job_wide', is_job_wide,
        'ranks', to_json(list({
            'rank': rank, 'node': node, 'wait_ratio': round(wait_ratio, 4),
            'worst_ratio': round(worst_ratio, 4), 'lost_s': round(lost_s, 3),
            'step_count': step_count, 'coverage_ratio': round(coverage_ratio, 4)
        } ORDER BY worst_ratio DESC, rank)[:10]),
        'waiting_rank_count', waiting_rank_count,
        'rank_count', rank_count,
        'job_gpu_count', job_gpu_count,
        'lost_gpu_h_at_most', round(max(lost_s) * job_gpu_count / 3600, 3),
        'attempt', attempt,
        'time_basis', min(time_basis)
    )::VARCHAR AS evidence
FROM host_wait_rank_day
WHERE wait = 'launch' AND verdict = 'waits'
GROUP BY cluster, job_id, attempt, day_ts, is_job_wide, waiting_rank_count, rank_count, job_gpu_count
