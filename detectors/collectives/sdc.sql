/*
title = "A rank's weights, loss or gradients differ from what its peers have"
domain = "performance"
kind = "sdc"
severity = "medium"
reviewed = "2026-11-30"

flags = """
High: replicas of one shard whose weights have different hashes after a step (a fact: the named ranks
differ from the majority, or, where there is none, one of them does). Medium: a suspect, no more: a rank
whose loss or gradient norm, before averaging, is no number or more than 8 robust spreads (and 20 %) off
the median of its pipeline stage in at least three steps of a day, and which makes up at least half of all
such steps of the job. One finding per job, day, signal and set of ranks alike in verdict.
"""
why = """
A GPU that computes wrongly reports nothing. Averaging spreads its error to all replicas at once, and the
run trains on garbage until someone wonders about the loss. Meta counts 6 of 419 unexpected interruptions
of Llama 3 as silent data corruption.
"""
looks_like = """
Corrupt or unusual data of one rank's shard: it moves with the data, not with the GPU. A rank with other
work (a modality, longer sequences, the loss head). Weights that are not meant to be equal: sharded
optimizers hash their own part (ranks that never agree are left out), expert weights, random dropout
state in the hash. Replicas that drift because their algorithms are not deterministic.
"""
misses = """
Everything that nobody recorded per rank: most loops log one averaged loss. An error averaged before the
norm is taken is on all ranks alike. Fewer than four ranks in a stage. Errors below 20 %, once, or in
fewer than three steps. Hashes taken after the weights were broadcast again.
"""
todo = """
Keep the checkpoint before the first deviating step. Run a deterministic replay of that step, or a
GPU self-test (DCGM diagnostics level 3, memory and compute checks), on the named GPU with the same data
and then with another rank's. If the deviation follows the GPU, replace it; if it follows the data, look
at the data.
"""
*/
SELECT
    concat_ws('/', cluster, job_id, attempt, signal, verdict, day_ts::DATE) AS subject,
    max(if(verdict = 'suspect', share_ratio, 1)) AS score,
    if(signal = 'weight_hash', 'high', 'medium') AS severity,
    min(first_ts) AS start_ts,
    max(last_ts) AS end_ts,
    min(evidence_ts) AS detected_at,
    [cluster] AS cluster,
    list(DISTINCT node ORDER BY node) FILTER (node IS NOT NULL) AS node,
    list(DISTINCT gpu_uuid ORDER BY gpu_uuid) FILTER (gpu_uuid IS NOT NULL) AS gpu_uuid,
    list(rank ORDER BY rank) AS rank,
    [job_id] AS job_id,
    json_object(
        'claim', CASE verdict
            WHEN 'mismatch' THEN 'fact: weights differ from those of most replicas'
            WHEN 'tied_mismatch' THEN 'fact: weights of replicas differ; which is wrong is not known'
            ELSE 'suspect: deviates from its peers again and again'
        END,
        'signal', signal,
        'ranks', to_json(list(
            {'rank': rank, 'deviating_step_count': deviating_step_count, 'first_step': first_step,
             'worst_ratio': round(worst_ratio, 4), 'step_count': step_count,
             'peer_count': peer_count}
            ORDER BY rank
        )[:64]),
        'job_deviation_count', max(job_deviation_count),
        'attempt', attempt,
        'coverage_ratio', round(min(coverage_ratio), 4),
        'time_basis', min(time_basis)
    )::VARCHAR AS evidence
FROM sdc_suspect
WHERE verdict <> 'not_suspect'
GROUP BY cluster, job_id, attempt, signal, verdict, day_ts
