/*
title = "A team's objective burns its budget"
domain = "performance"
kind = "objective"
severity = "medium"
reviewed = "2026-11-30"
lookback = "1d"

flags = """
A day on which so many of a team's attempts missed its objective (waits, slowdown, completion) that at this rate the month's budget is gone in
`30 / fast_burn_ratio` days, while the week as a whole is above budget too, and so that chance is no explanation: at least
`min_bad_count` attempts. High when the 30 days' budget is spent. `lower` and `upper` are attempts beyond the day's budget.
"""
why = """
An objective is a promise. A team that waits past it once forgives it; a budget that burns for days is noticed by the team before it is noticed by the
operator, unless somebody counts.
"""
looks_like = """
One user who submits a thousand jobs at once and waits for his own; a maintenance window that everybody knew of; an objective set tighter
than the fleet ever met, which burns from its first day.
"""
misses = """
Teams without an objective. Slow burns under `fast_burn_ratio`: see objective_burn for 30 days. Attempts that can not be judged: given up before the limit,
or still running; coverage_ratio says how many. Days after the last record, when nothing was submitted.
"""
todo = """
See stranded_gpus and quota_use for what held the team back, queue_wait for which sizes waited, failure_share for what was spoilt. If the objective was
never met, change it.
"""

[params.fast_burn_ratio]
default = 6
doc = "ratio; burn rate of one day. 6 spends a fifth of a month's budget in a day; the SRE workbook (chapter 5) pages at 6 over six hours, for which a day is the grain here"

[params.min_bad_count]
default = 5
doc = "count; bad attempts of the day below which chance decides. Own choice: with five the day's share is known to about a factor of two"
*/
SELECT
    concat_ws('/', cluster, objective, strftime(day_ts, '%Y-%m-%d')) AS subject,
    least(0.95, 0.5 + 0.05 * burn_1d_ratio) AS score,
    if(burn_30d_ratio >= 1, 'high', 'medium') AS severity,
    day_ts AS start_ts,
    day_ts + INTERVAL 1 DAY AS end_ts,
    day_ts + INTERVAL 1 DAY AS detected_at,
    [cluster] AS cluster,
    bad_count - ceil(round((1 - target_ratio) * judged_count, 6)) AS lower,
    bad_count - floor(round((1 - target_ratio) * judged_count, 6)) AS upper,
    json_object(
        'quantity', 'attempts beyond the day''s budget',
        'objective', objective,
        'kind', kind,
        'target_ratio', target_ratio,
        'good_ratio', round(good_ratio, 4),
        'judged', judged_count,
        'bad', bad_count,
        'burn_1d', round(burn_1d_ratio, 2),
        'burn_7d', round(burn_7d_ratio, 2),
        'burn_30d', round(burn_30d_ratio, 2),
        'coverage_ratio', round(coverage_ratio, 3)
    )::VARCHAR AS evidence
FROM objective_burn
WHERE burn_1d_ratio >= getvariable('fast_burn_ratio')
    AND burn_7d_ratio >= 1
    AND bad_count >= getvariable('min_bad_count')
