/*
title = "A different rank is slow in every step"
domain = "performance"
kind = "moving_straggler"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A job of which some rank takes more than 1.10 times as long as its peers in at least a tenth of at least
20 steps of a day, no rank being the slowest in half of those steps, when this costs more than 1 % of
the steps' time. It names a cause where there is a hint and no rank: `cause` is `sequence_length` when
forward and backward times rise together (correlation of 0.9 or more), `host_pause` when they do not
(under 0.5), `unknown` in between or when the parts are not recorded.
"""
why = """
Everybody waits for the slowest in every step, whoever it is. Swapping the rank that happened to be last
changes nothing: the cause lies in the data, the host software or the schedule. Sequence lengths explain
21 % of straggling jobs in ByteDance's fleet (StragglerAnalysis, OSDI 25), garbage collection others.
"""
looks_like = """
Two sick ranks that are slow in turn. A large job with noisy steps: among a thousand ranks one is always
slow. Experts that get uneven shares of tokens. Jobs that share their hosts.
"""
misses = """
One rank that is slow most of the time (`straggler_rank`). Steps in which all ranks pause together.
Compute that is long on purpose because the sequence is, and short where it is not, if ranks of one
stage get the same. Fewer than four ranks that do the same work. Slowness of communication.
"""
todo = """
For sequence lengths: pack or balance batches by the square of their length. For pauses: collect garbage
in all ranks at the same step (`gc.disable()` and a manual `gc.collect()` every so many steps), and look
for co-tenants of the hosts. `direction_corr` and `spread_step_ratio` say which one it resembles.
"""

[params.min_spread_step_ratio]
default = 0.10
doc = "ratio of the steps. Pauses of 5 % of the rank-steps in a stage of eight slow a third of them."
[params.max_slowest_rank_ratio]
default = 0.50
doc = "ratio; from here on one rank is to blame."
[params.min_lost_ratio]
default = 0.01
doc = "ratio of the steps' time; as in step_straggler."
[params.sequence_corr]
default = 0.90
doc = "ratio; between the figures of trace SE (sequence lengths, 0.99) and ST (none, up to 0.88)."
[params.pause_corr]
default = 0.50
doc = "ratio; a pause falls into a forward or a backward pass, seldom into both. Own choice."
*/
SELECT
    concat_ws('/', cluster, job_id, attempt, day_ts::DATE) AS subject,
    1 - slowest_rank_ratio AS score,
    start_ts,
    end_ts,
    evidence_ts AS detected_at,
    [cluster] AS cluster,
    [job_id] AS job_id,
    json_object(
        'quantity', 'compute time of the slowest rank over the median of its peers',
        'cause', CASE
            WHEN direction_corr >= getvariable('sequence_corr') THEN 'sequence_length'
            WHEN direction_corr < getvariable('pause_corr') THEN 'host_pause'
            ELSE 'unknown'
        END,
        'direction_corr', round(direction_corr, 3),
        'spread_ratio', round(spread_ratio, 4),
        'spread_step_ratio', round(spread_step_ratio, 4),
        'slowest_rank_ratio', round(slowest_rank_ratio, 4),
        'spread_lost_ratio', round(spread_lost_ratio, 4),
        'lost_gpu_h', round(spread_lost_gpu_s / 3600, 3),
        'step_count', step_count,
        'coverage_ratio', round(coverage_ratio, 4),
        'rank_count', rank_count,
        'attempt', attempt,
        'time_basis', time_basis
    )::VARCHAR AS evidence
FROM job_straggler
WHERE evidence_ts IS NOT NULL
    AND spread_step_ratio >= getvariable('min_spread_step_ratio')
    AND slowest_rank_ratio < getvariable('max_slowest_rank_ratio')
    AND spread_lost_ratio > getvariable('min_lost_ratio')
