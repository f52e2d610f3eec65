/*
doc = """
Where GPU time goes, per model and day, each stage a part of the one before: installed, in service, allocated, active, productive. The
losses between them are disjoint: installed = out_of_service + unallocated + inactive + unproductive + productive, once with the upper
and once with the lower bound of what was lost. Work that was preempted and done again is charged once: to the attempt that lost it.

active is allocated time in which the GPU did anything (gpu_job_5min, where nodes ran one job alone), carried over to all allocated time; NULL
where none was seen. Job records show no checkpoints: an attempt that did not complete lost anything between none and all of its work, which gives the two bounds.
Without activity the last stage is taken of allocated time. Allocated is cut at in service, where the records contradict each other.
"""
grain = ["cluster", "gpu_model", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "gpu_model"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
gpu_model = { type = "VARCHAR", doc = "node_capacity_day.gpu_model" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
installed_gpu_s = { type = "DOUBLE", doc = "GPU-seconds installed; NULL if not known", unit = "s" }
out_of_service_gpu_s = { type = "DOUBLE", doc = "loss: closed nodes, less what jobs still held there", unit = "s" }
in_service_gpu_s = { type = "DOUBLE", doc = "GPU-seconds in service", unit = "s" }
unallocated_gpu_s = { type = "DOUBLE", doc = "loss: in service and held by no job", unit = "s" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held by jobs", unit = "s" }
inactive_gpu_s = { type = "DOUBLE", doc = "loss: held, and the GPU did nothing", unit = "s" }
active_gpu_s = { type = "DOUBLE", doc = "held and active", unit = "s" }
unproductive_gpu_s = { type = "DOUBLE", doc = "loss at most: active in attempts that did not complete, as if they had lost all their work; 0 at least", unit = "s" }
productive_lower_gpu_s = { type = "DOUBLE", doc = "active in attempts that completed", unit = "s" }
productive_upper_gpu_s = { type = "DOUBLE", doc = "active at all", unit = "s" }
activity_coverage_ratio = { type = "DOUBLE", doc = "share of allocated GPU time whose activity was seen", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of the nodes' job time with known GPUs, 0 if no capacity is known", unit = "ratio" }

[params.min_activity_ratio]
default = 0.01
doc = "ratio; below it a GPU does nothing: kernels of monitoring alone stay under 1 %"
*/
WITH seen AS (
    SELECT
        cluster, node, date_trunc('day', window_ts)::TIMESTAMP AS day_ts,
        sum(300 * coverage_ratio) AS seen_s,
        coalesce(sum(300 * coverage_ratio) FILTER (activity_ratio >= getvariable('min_activity_ratio')), 0) AS active_s
    FROM gpu_job_5min
    WHERE job_id IS NOT NULL AND activity_ratio IS NOT NULL
    GROUP BY ALL
),
completed AS (
    SELECT
        a.cluster, a.node, g.day_ts,
        sum(a.gpu_count / nullif(g.alloc_gpus, 0) * g.goodput_lower_gpu_s) AS gpu_s,
        sum(a.gpu_count / nullif(g.alloc_gpus, 0) * g.allocated_gpu_s) AS held_gpu_s
    FROM job_goodput AS g
    JOIN gpu_allocation AS a USING (cluster, job_id, attempt)
    GROUP BY ALL
),
model AS (
    SELECT
        n.cluster, n.gpu_model, n.day_ts,
        sum(n.installed_gpu_s) AS installed_gpu_s,
        CASE WHEN count(n.in_service_gpu_s) = count(n.installed_gpu_s) THEN sum(n.in_service_gpu_s) END AS in_service_gpu_s,
        sum(n.allocated_gpu_s) AS allocated_gpu_s,
        sum(s.seen_s) AS seen_s,
        sum(s.active_s) / nullif(sum(s.seen_s), 0) AS active_ratio,
        sum(c.gpu_s) / nullif(sum(c.held_gpu_s), 0) AS completed_ratio,
        avg(if(n.installed_gpu_s IS NULL, 0, n.coverage_ratio)) AS coverage_ratio
    FROM node_capacity_day AS n
    LEFT JOIN seen AS s USING (cluster, node, day_ts)
    LEFT JOIN completed AS c USING (cluster, node, day_ts)
    GROUP BY ALL
),
cut AS (
    SELECT *, if(allocated_gpu_s > in_service_gpu_s, in_service_gpu_s, allocated_gpu_s) AS held_gpu_s
    FROM model
),
staged AS (
    SELECT *, coalesce(held_gpu_s * active_ratio, held_gpu_s) AS worked_gpu_s FROM cut
)
SELECT
    cluster, gpu_model, day_ts, installed_gpu_s,
    installed_gpu_s - in_service_gpu_s AS out_of_service_gpu_s,
    in_service_gpu_s,
    in_service_gpu_s - held_gpu_s AS unallocated_gpu_s,
    held_gpu_s AS allocated_gpu_s,
    held_gpu_s * (1 - active_ratio) AS inactive_gpu_s,
    held_gpu_s * active_ratio AS active_gpu_s,
    worked_gpu_s * (1 - completed_ratio) AS unproductive_gpu_s,
    worked_gpu_s * completed_ratio AS productive_lower_gpu_s,
    worked_gpu_s + 0 * completed_ratio AS productive_upper_gpu_s,
    least(1, coalesce(seen_s, 0) / nullif(allocated_gpu_s, 0)) AS activity_coverage_ratio,
    coverage_ratio
FROM staged
