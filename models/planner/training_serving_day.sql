/*
doc = """
What training and serving take from each other on one fleet, per day: GPU time of each class, what each waited, and what one took from the other by preemption.
An attempt serves if what its record says of it (workload, job name, partition, account, quality of service) fits serving_pattern; all
else with GPUs counts as training. Records seldom say it: state the pattern of your site in the settings.

taken_…: GPUs of preempted attempts whose preemptor is of the other class, and the GPU time they had held until then, the most that can be lost. Preemptors are known where
the scheduler names them (queue_event: Kueue, Volcano, YuniKorn); coverage_ratio says of how many of the preempted.
"""
grain = ["cluster", "day_ts", "class"]
time = "day_ts"
sort = ["cluster", "day_ts", "class"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
class = { type = "VARCHAR", doc = "training or serving" }
attempt_count = { type = "BIGINT", doc = "attempts that held GPUs on the day", unit = "count" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds they held", unit = "s" }
peak_gpu_count = { type = "DOUBLE", doc = "most GPUs held at once", unit = "count" }
submit_wait_p90_s = { type = "DOUBLE", doc = "90th percentile of the waits of those submitted on the day that started", unit = "s" }
preempted_count = { type = "BIGINT", doc = "attempts of this class that were preempted on the day", unit = "count" }
taken_count = { type = "BIGINT", doc = "of these by the other class", unit = "count" }
taken_gpu_count = { type = "DOUBLE", doc = "GPUs the other class took so", unit = "count" }
taken_gpu_s = { type = "DOUBLE", doc = "GPU-seconds these attempts had held until then", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "preempted attempts whose preemptor is known; 1 if none was preempted", unit = "ratio" }

[params.serving_pattern]
default = "(^|[^a-z])(serv|infer|deploy|endpoint|vllm|triton|tgi)"
doc = "regular expression (RE2), capitals do not matter, on workload, job name, partition, account and quality of service. Names that serving stacks use; state your own"
*/
WITH attempt AS (
    SELECT
        cluster, coalesce(het_job_id, job_id) AS job_id, attempt, raw_job_id, submit_ts, start_ts, state, end_ts,
        greatest(start_ts, coalesce(end_ts, observed_ts, start_ts)) AS until_ts,
        coalesce(alloc_gpu_amount, alloc_gpus)::DOUBLE AS gpus,
        if(regexp_matches(concat_ws(' ', workload, job_name, partition, account, qos), getvariable('serving_pattern'), 'i'),
            'serving', 'training') AS class
    FROM job_attempt
),
held AS (
    SELECT *, greatest(start_ts, day_ts) AS from_ts, least(until_ts, day_ts + INTERVAL 1 DAY) AS to_ts
    FROM (
        SELECT *, unnest(generate_series(
            date_trunc('day', start_ts),
            greatest(date_trunc('day', start_ts), until_ts - INTERVAL 1 MICROSECOND),
            INTERVAL 1 DAY
        ))::TIMESTAMP AS day_ts
        FROM attempt
        WHERE gpus > 0 AND start_ts IS NOT NULL
    )
),
used AS (
    SELECT cluster, day_ts, class, count(*) AS attempt_count, sum(gpus * epoch(to_ts - from_ts)) AS gpu_s
    FROM held
    GROUP BY ALL
),
peak AS (
    SELECT cluster, day_ts, class, max(gpus) AS gpus
    FROM (
        SELECT cluster, day_ts, class, sum(sum(sign * gpus)) OVER (PARTITION BY cluster, day_ts, class ORDER BY at_ts) AS gpus
        FROM (SELECT *, from_ts AS at_ts, 1 AS sign FROM held UNION ALL SELECT *, to_ts, -1 FROM held)
        GROUP BY cluster, day_ts, class, at_ts
    )
    GROUP BY ALL
),
wait AS (
    SELECT
        cluster, date_trunc('day', submit_ts)::TIMESTAMP AS day_ts, class,
        quantile_cont(if(start_ts < submit_ts, 0, epoch(start_ts - submit_ts)), 0.9) AS p90
    FROM attempt
    WHERE start_ts IS NOT NULL AND gpus > 0
    GROUP BY ALL
),
-- The attempt that ran when it was preempted, and who did it, where the scheduler says.
preempted AS (
    SELECT
        a.cluster, a.class, date_trunc('day', a.until_ts)::TIMESTAMP AS day_ts,
        a.gpus, a.gpus * epoch(a.until_ts - a.start_ts) AS gpu_s,
        max(p.class) AS by_class
    FROM attempt AS a
    LEFT JOIN queue_event AS e
        ON e.cluster = a.cluster AND e.job_id = a.job_id AND e.kind IN ('preempted', 'evicted')
        AND e.ts BETWEEN a.start_ts AND a.until_ts + INTERVAL 10 MINUTE
        AND (e.preemptor_job_id IS NOT NULL OR e.preemptor_uid IS NOT NULL)
    LEFT JOIN (SELECT DISTINCT cluster, job_id, raw_job_id, class FROM attempt) AS p
        ON p.cluster = e.cluster AND (p.job_id = e.preemptor_job_id OR p.raw_job_id = e.preemptor_uid)
    WHERE a.state = 'PREEMPTED' AND a.start_ts IS NOT NULL AND a.gpus > 0 AND a.end_ts IS NOT NULL
    GROUP BY a.cluster, a.class, a.job_id, a.attempt, a.until_ts, a.start_ts, a.gpus
),
lost AS (
    SELECT
        cluster, day_ts, class,
        count(*) AS preempted_count,
        count(*) FILTER (by_class <> class) AS taken_count,
        coalesce(sum(gpus) FILTER (by_class <> class), 0) AS taken_gpu_count,
        coalesce(sum(gpu_s) FILTER (by_class <> class), 0) AS taken_gpu_s,
        count(by_class) / count(*)::DOUBLE AS coverage_ratio
    FROM preempted
    GROUP BY ALL
)
SELECT
    u.cluster, u.day_ts, u.class, u.attempt_count,
    u.gpu_s::DOUBLE AS allocated_gpu_s,
    p.gpus::DOUBLE AS peak_gpu_count,
    w.p90::DOUBLE AS submit_wait_p90_s,
    coalesce(l.preempted_count, 0) AS preempted_count,
    CASE WHEN coalesce(l.coverage_ratio, 1) > 0 THEN coalesce(l.taken_count, 0) END AS taken_count,
    CASE WHEN coalesce(l.coverage_ratio, 1) > 0 THEN coalesce(l.taken_gpu_count, 0) END::DOUBLE AS taken_gpu_count,
    CASE WHEN coalesce(l.coverage_ratio, 1) > 0 THEN coalesce(l.taken_gpu_s, 0) END::DOUBLE AS taken_gpu_s,
    coalesce(l.coverage_ratio, 1) AS coverage_ratio
FROM used AS u
JOIN peak AS p USING (cluster, day_ts, class)
LEFT JOIN wait AS w USING (cluster, day_ts, class)
LEFT JOIN lost AS l USING (cluster, day_ts, class)
