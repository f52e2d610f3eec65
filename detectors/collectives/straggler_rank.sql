/*
title = "One rank computes slower than its peers and holds up the job"
domain = "performance"
kind = "slow_gpu"
severity = "medium"
reviewed = "2026-11-30"
optional = [
    "collective", "collective_group", "collective_perf", "comm_function_count", "comm_state",
    "gpu_event", "gpu_identity", "gpu_link_sample", "gpu_sample", "inventory_gpu", "job_attempt",
    "nccl_log_event", "rank_map", "xid_policy",
]

flags = """
A rank whose compute takes longer than that of the other ranks of its pipeline stage: in at least 80 %
of the last 20 steps, or of all steps of the day so far, by a median that lies two standard
errors above 1.04 and five above 1, when what that costs exceeds 1 % of those steps' time, and four standard
deviations above the job's other ranks in the same steps. Where batches are uneven, the same after the step's load
was taken out (`load_basis`: by recorded tokens or lengths, or by the other ranks of its data-parallel replica), or
by the mean over 100 or 400 steps or the day so far. One finding per rank and
day; `start_ts` and `end_ts` span the slow steps, `lower` and `upper` are the 95 % interval of the ratio.
`history_ratio` in the evidence is a second witness: how much slower than before its own compute became.
Silent where the rank's tokens, or the square of its sequence lengths, exceed its peers' by as much.
`high` from a tenth of the job's time on.
"""
why = """
In synchronous training every rank waits for the slowest in every step, so one bad GPU taxes all of
them. The job still runs and nothing else reports it: the waiting shows up as communication time on
the healthy ranks.
"""
looks_like = """
Uneven work: a rank with more layers, more experts' tokens, an extra head or the logging. A host that is
slow to launch kernels, or shares its cores. A power cap or clock limit that was set on purpose.
Profiling turned on for one rank. Longer sequences or more tokens that
always fall to the same rank, where the records state neither.
"""
misses = """
A whole stage or job that is slow: there are no faster peers (`stage_overload`, `whole_job_slowdown`).
Half of a stage or more being slow. In stages of fewer than four ranks, unless other stages do the same
work, a rank that was slow from the day's first 20 steps on. Jobs of fewer than four ranks. Slowness that
moves from rank to rank (`moving_straggler`); three ranks that are slow at different times of one day
count as such. A sick rank that also has more tokens or longer sequences. Slowness of the first 100
training steps of a day that then ends. In jobs of uneven batches what slows most of a replica, and, where neither tokens nor
other ranks of the replica are recorded, slowness of a few percent over less than some hundred steps. Slow links, switches and storage:
compute time does not see them. Slowness under 4 %, or over fewer than 20 steps. Ranks that no record was
kept of; with one traced rank per tensor-parallel group, which of its GPUs it is. Steps not traced.
"""
todo = """
Look at that GPU's clocks, throttle reasons, temperature and memory errors at the time, and at its
host's load. Compare the split into forward, backward and optimizer: memory-bound parts slow alone
point to memory, all alike to clocks. Swap the node at the next restart and see whether the ratio
moves with it; run a single-GPU benchmark on the node taken out.
"""

[params.high_lost_ratio]
default = 0.10
doc = "ratio of the job's time lost from which severity is high. Own choice: the worst tenth of large jobs in ByteDance's published fleet study lose 21 %, so a tenth is clearly abnormal."
[needs]
step_straggler = "verdict <> 'not_evaluable'"
*/
SELECT
    concat_ws('/', s.cluster, s.job_id, s.attempt, s.rank, s.day_ts::DATE) AS subject,
    slow_step_ratio AS score,
    if(lost_ratio >= getvariable('high_lost_ratio'), 'high', 'medium') AS severity,
    coalesce(slow_start_ts, s.start_ts) AS start_ts,
    coalesce(slow_end_ts, s.end_ts) AS end_ts,
    evidence_ts AS detected_at,
    [s.cluster] AS cluster,
    if(coalesce(s.node, c.node) IS NULL, [], [coalesce(s.node, c.node)]) AS node,
    if(coalesce(s.gpu_uuid, c.gpu_uuid) IS NULL, [], [coalesce(s.gpu_uuid, c.gpu_uuid)]) AS gpu_uuid,
    [s.rank] AS rank,
    [s.job_id] AS job_id,
    ratio_lower AS lower,
    ratio_upper AS upper,
    json_object(
        'quantity', 'compute time over the median of same-stage peers',
        'basis', basis,
        'load_basis', load_basis,
        'ratio', round(ratio, 4),
        'ratio_lower', round(ratio_lower, 4),
        'ratio_upper', round(ratio_upper, 4),
        'noise_ratio', round(noise_ratio, 4),
        'history_ratio', round(history_ratio, 4),
        'load_ratio', round(load_ratio, 4),
        'slow_step_ratio', round(slow_step_ratio, 4),
        'step_count', step_count,
        'coverage_ratio', round(s.coverage_ratio, 4),
        'peer_count', peer_count,
        'pp_stage', pp_stage,
        'attempt', s.attempt,
        'lost_ratio', round(lost_ratio, 4),
        'lost_gpu_h', round(lost_gpu_s / 3600, 3),
        'recorded_step_ratio', round(recorded_step_ratio, 4),
        'job_gpu_count', job_gpu_count,
        'time_basis', time_basis,
        'root_cause', {'verdict': c.verdict, 'cause': c.cause, 'summary': c.summary,
                       'other_causes': c.other_causes}
    )::VARCHAR AS evidence
FROM step_straggler AS s
LEFT JOIN root_cause AS c
    ON c.kind = 'straggler' AND c.cluster = s.cluster AND c.job_id = s.job_id
    AND c.attempt = s.attempt AND c.rank = s.rank AND c.day_ts = s.day_ts
WHERE s.verdict = 'slow'
