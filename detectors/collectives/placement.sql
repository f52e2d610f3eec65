/*
title = "A job is slow because its nodes are spread over the network"
domain = "performance"
kind = "placement"
severity = "low"
reviewed = "2026-11-30"
optional = ["step_sample", "collective_perf"]

flags = """
A job of several nodes whose bandwidth between nodes is below 0.9 of comparable jobs that span fewer
leaf switches, racks or NVLink domains (or, where nobody recorded bandwidth, whose steps are over 3 %
longer), when at least three such jobs ran in the 14 days before, and at least two others that span as
many are slow too (job_placement). One finding per job and day, with the figures of every level. `lower`
and `upper` are the same figure of this job and of the others that span as many.
"""
why = """
A job that is spread over many switches shares their uplinks with others and takes more hops. It looks
like a slow network and no part of it is broken: the scheduler can put it right.
"""
looks_like = """
A fabric that was full that day: then jobs that span fewer are slow too, and the comparison holds only
among days alike. A slow NIC in one of its nodes: others that span as many are then not slow, and
nothing is said. Jobs that differ in what they compute under one name, where steps are compared.
"""
misses = """
Jobs of a shape that fewer than three more compact jobs had, new programs, jobs whose nodes the
inventory does not place (job_placement says which). Spreading that costs less than a tenth of the
bandwidth. Placement inside a node.
"""
todo = """
Ask for topology-aware placement (Slurm topology/tree or block with --switches, Kubernetes topology
scheduling), or defragment. Weigh it against the longer wait in the queue.
"""
*/
WITH worst AS (
    SELECT *
    FROM job_placement
    WHERE verdict = 'is_the_problem'
    QUALIFY row_number() OVER (
        PARTITION BY cluster, job_id, attempt, day_ts
        ORDER BY span_count / least_span_count DESC, level
    ) = 1
),

figures AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        to_json(list(
            {'level': level, 'span_count': span_count, 'least_span_count': least_span_count,
             'verdict': verdict, 'busbw_ratio': round(busbw_ratio, 4),
             'step_ratio': round(step_ratio, 4), 'compact_job_count': compact_job_count,
             'spread_job_count': spread_job_count}
            ORDER BY level
        )) AS levels
    FROM job_placement
    GROUP BY ALL
)

SELECT
    concat_ws('/', cluster, job_id, attempt, day_ts::DATE) AS subject,
    least(1, 1 - coalesce(busbw_ratio, 1 / step_ratio)) AS score,
    start_ts,
    end_ts,
    end_ts AS detected_at,
    [cluster] AS cluster,
    node,
    [job_id] AS job_id,
    [principal] AS principal,
    if(basis = 'busbw', least(busbw_ratio, spread_busbw_ratio), least(step_ratio, spread_step_ratio))
        AS lower,
    if(basis = 'busbw', greatest(busbw_ratio, spread_busbw_ratio),
       greatest(step_ratio, spread_step_ratio)) AS upper,
    json_object(
        'quantity', if(basis = 'busbw', 'bus bandwidth', 'step length')
            || ' over that of jobs that span fewer',
        'level', level,
        'levels', levels,
        'node_count', node_count,
        'attempt', attempt,
        'coverage_ratio', coverage_ratio
    )::VARCHAR AS evidence
FROM worst
JOIN figures USING (cluster, job_id, attempt, day_ts)
