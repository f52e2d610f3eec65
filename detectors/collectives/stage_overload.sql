/*
title = "One pipeline stage has more work than the others and holds up the job"
domain = "performance"
kind = "last_stage_overload"
severity = "low"
reviewed = "2026-11-30"

flags = """
A pipeline stage whose fastest rank takes more than 1.10 times as long as those of the other stages, in
at least 80 % of at least 20 steps of a day, when a balanced split could save 1 % of the steps' time
or more. `kind` is `last_stage_overload` for the last stage and `stage_overload` for any other.
"""
why = """
Every microbatch passes through every stage, so the heaviest one sets the pace and the others wait in
bubbles. The last stage often is: it holds the output layer and the loss. In ByteDance's fleet it
explains 39 % of straggling jobs, more than any fault (StragglerAnalysis, OSDI 25).
"""
looks_like = """
Nothing is broken: this is how the model was split. With one rank per stage, a slow GPU looks the same;
compare its ratio with that before the last restart. Stages may differ on purpose, for memory's sake.
"""
misses = """
Imbalance under 10 %. Jobs whose compute or stage times no record holds. Stages that are heavy in turn.
What the imbalance costs exactly: `stage_lost_ratio` is a bound, `what_if` replays it where operations
were traced (M_S of its part `last_stage`).
"""
todo = """
Give the stage fewer layers, or the embedding and the loss a share of their own (Megatron-LM:
`--decoder-last-pipeline-num-layers`). Check that the split is the intended one. Nobody needs to look
at hardware.
"""

[params.min_stage_step_ratio]
default = 0.80
doc = "ratio of the steps in which the stage is the heavier one; as in step_straggler."
[params.min_lost_ratio]
default = 0.01
doc = "ratio of the steps' time; as in step_straggler."
*/
SELECT
    concat_ws('/', cluster, job_id, attempt, day_ts::DATE) AS subject,
    if(heavy_is_last, 'last_stage_overload', 'stage_overload') AS kind,
    stage_step_ratio AS score,
    start_ts,
    end_ts,
    evidence_ts AS detected_at,
    [cluster] AS cluster,
    [job_id] AS job_id,
    json_object(
        'quantity', 'compute time of the stage''s fastest rank over that of the other stages',
        'heavy_stage', heavy_stage,
        'stage_count', stage_count,
        'stage_ratio', round(stage_ratio, 4),
        'stage_step_ratio', round(stage_step_ratio, 4),
        'stage_lost_ratio', round(stage_lost_ratio, 4),
        'step_count', step_count,
        'coverage_ratio', round(coverage_ratio, 4),
        'job_gpu_count', job_gpu_count,
        'attempt', attempt,
        'time_basis', time_basis
    )::VARCHAR AS evidence
FROM job_straggler
WHERE evidence_ts IS NOT NULL
    AND stage_step_ratio >= getvariable('min_stage_step_ratio')
    AND stage_lost_ratio >= getvariable('min_lost_ratio')
