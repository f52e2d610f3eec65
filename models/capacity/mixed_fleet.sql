/*
doc = """
GPUs of different models side by side, per day: GPU time, the same in H100 equivalents by peak dense BF16 rate, waits, and GPU time on large models that smaller
ones would have carried. Models stand under one name, whoever spells them (gpu_model_alias).
"""
grain = ["cluster", "gpu_model", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "gpu_model"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
gpu_model = { type = "VARCHAR", doc = "as gpu_model_alias names it; '' if not known" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
norm_ratio = { type = "DOUBLE", doc = "its peak dense BF16 rate by that of an H100 SXM (989 TFLOP/s); NULL if not in gpu_peak", unit = "ratio" }
installed_gpu_s = { type = "DOUBLE", doc = "GPU-seconds installed", unit = "s" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held", unit = "s" }
allocated_h100_s = { type = "DOUBLE", doc = "allocated_gpu_s x norm_ratio", unit = "s" }
wait_count = { type = "BIGINT", doc = "attempts submitted on the day that started on it", unit = "count" }
submit_wait_p50_s = { type = "DOUBLE", doc = "their wait from submit to start: median", unit = "s" }
submit_wait_p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
oversized_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of H200 and B200 days in which a job's GPU never used 40 GB and kept its multiprocessors under 20 % busy: a smaller model would do; NULL for other models and where nothing was seen", unit = "s" }
judged_gpu_s = { type = "DOUBLE", doc = "GPU-seconds in jobs for which memory and activity were seen", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of the nodes' job time with known GPUs", unit = "ratio" }

[params.small_memory_bytes]
default = 40000000000
doc = "bytes; what fits an A100 40 GB"

[params.small_sm_active_ratio]
default = 0.2
doc = "ratio; mean multiprocessor activity under which a weaker GPU would keep up"
*/
WITH gpu_name AS (
    SELECT DISTINCT gpu_model AS raw_model FROM gpu_minute WHERE gpu_model <> ''
),
-- The exporter's spelling need not be the inventory's.
peak AS (
    SELECT raw_model, gpu_model, dense_tflops FROM gpu_model_alias
    UNION
    SELECT
        g.raw_model,
        first(p.gpu_model ORDER BY p.match_order, p.pattern),
        first(p.dense_tflops ORDER BY p.match_order, p.pattern)
    FROM gpu_name AS g
    JOIN gpu_peak AS p ON p.precision = 'fp16_bf16' AND regexp_matches(g.raw_model, p.pattern, 'i')
    WHERE g.raw_model NOT IN (SELECT raw_model FROM gpu_model_alias)
    GROUP BY g.raw_model
),
norm AS (
    SELECT gpu_model, any_value(dense_tflops) / 989 AS norm_ratio FROM gpu_model_alias GROUP BY gpu_model
),
held AS (
    SELECT
        n.cluster, n.day_ts,
        coalesce(p.gpu_model, n.gpu_model) AS gpu_model,
        sum(n.installed_gpu_s) AS installed_gpu_s,
        sum(n.allocated_gpu_s) AS allocated_gpu_s,
        avg(n.coverage_ratio) AS coverage_ratio
    FROM node_capacity_day AS n
    LEFT JOIN peak AS p ON p.raw_model = n.gpu_model
    GROUP BY ALL
),
wait AS (
    SELECT
        w.cluster, date_trunc('day', w.attempt_ts)::TIMESTAMP AS day_ts,
        coalesce(p.gpu_model, w.gpu_model) AS gpu_model,
        count(w.submit_wait_s) AS wait_count,
        quantile_cont(w.submit_wait_s, 0.5) AS p50,
        quantile_cont(w.submit_wait_s, 0.9) AS p90
    FROM job_wait AS w
    LEFT JOIN peak AS p ON p.raw_model = w.gpu_model
    WHERE w.gpu_count > 0
    GROUP BY ALL
),
gpu AS (
    SELECT
        m.cluster, date_trunc('day', m.minute_ts)::TIMESTAMP AS day_ts, m.gpu_uuid,
        any_value(m.gpu_model) AS raw_model,
        sum(60 * m.coverage_ratio) AS seen_s,
        max(m.fb_used_max_bytes) AS fb_used_bytes,
        sum(m.sm_active_ratio * m.coverage_ratio) / nullif(sum(m.coverage_ratio) FILTER (m.sm_active_ratio IS NOT NULL), 0) AS sm_active_ratio
    FROM gpu_minute AS m
    JOIN gpu_job_5min AS j
        ON j.cluster = m.cluster AND j.gpu_uuid = m.gpu_uuid
        AND j.window_ts = time_bucket(INTERVAL 5 MINUTE, m.minute_ts)
    WHERE j.job_id IS NOT NULL AND m.mig_instance = ''
    GROUP BY ALL
),
judged AS (
    SELECT
        g.cluster, g.day_ts, coalesce(p.gpu_model, g.raw_model) AS gpu_model,
        sum(seen_s) AS judged_gpu_s,
        coalesce(sum(seen_s) FILTER (
            fb_used_bytes < getvariable('small_memory_bytes') AND sm_active_ratio < getvariable('small_sm_active_ratio')
        ), 0) AS oversized_gpu_s
    FROM gpu AS g
    LEFT JOIN peak AS p USING (raw_model)
    WHERE fb_used_bytes IS NOT NULL AND sm_active_ratio IS NOT NULL
    GROUP BY ALL
)
SELECT
    h.cluster, h.gpu_model, h.day_ts,
    m.norm_ratio,
    h.installed_gpu_s, h.allocated_gpu_s,
    h.allocated_gpu_s * m.norm_ratio AS allocated_h100_s,
    coalesce(w.wait_count, 0) AS wait_count,
    w.p50 AS submit_wait_p50_s,
    w.p90 AS submit_wait_p90_s,
    CASE WHEN regexp_matches(h.gpu_model, '(^|[^G])H200|B200', 'i') THEN j.oversized_gpu_s END AS oversized_gpu_s,
    j.judged_gpu_s,
    h.coverage_ratio
FROM held AS h
LEFT JOIN norm AS m USING (gpu_model)
LEFT JOIN wait AS w USING (cluster, day_ts, gpu_model)
LEFT JOIN judged AS j USING (cluster, day_ts, gpu_model)
