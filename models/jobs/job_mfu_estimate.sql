/*
doc = """
An ESTIMATE of each job's MFU from telemetry alone, as a range, per attempt, UTC day and GPU model: for jobs without
step logs. Tensor activity is a share of cycles, so it counts times the SM clock by the clock that the peak is stated for.
The range is wide because telemetry cannot see which precision ran, whether active cycles issued at full rate, or whether
work was recomputed. Only five-minute windows in which the GPU is the job's alone, warm and working count (gpu_job_5min),
so pauses are not in it. Where the job has step logs, too, their MFU stands beside it: the check on the range.
"""
grain = ["cluster", "job_id", "attempt", "day_ts", "gpu_model"]
time = "day_ts"
sort = ["job_id", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
gpu_model = { type = "VARCHAR", doc = "model of the GPUs; a job on several has a row for each" }
method = { type = "VARCHAR", doc = "telemetry_estimate, always: no figure here is a measurement", null = false }
mfu_lower_ratio = { type = "DOUBLE", doc = "of the peak of whatever precision ran: every active cycle at min_issue_ratio of the full rate, a quarter of the work recomputed unless the job is known to recompute nothing; NULL: no clock is published for the peak", unit = "ratio" }
mfu_upper_ratio = { type = "DOUBLE", doc = "every active cycle at full rate, nothing recomputed unless the job is known to recompute all", unit = "ratio" }
model_tflops_lower = { type = "DOUBLE", doc = "mfu_lower_ratio of the peak at the stated precision, else at BF16", unit = "TFLOP/s" }
model_tflops_upper = { type = "DOUBLE", doc = "mfu_upper_ratio of the peak at the stated precision, else at FP8 where the GPU has it", unit = "TFLOP/s" }
tensor_active_ratio = { type = "DOUBLE", doc = "mean share of cycles with a tensor pipe active", unit = "ratio" }
clock_ratio = { type = "DOUBLE", doc = "mean SM clock, weighted by tensor activity, by spec_clock_mhz", unit = "ratio" }
spec_clock_mhz = { type = "DOUBLE", doc = "clock that the peak is stated for", unit = "MHz" }
precision = { type = "VARCHAR", doc = "of model_shape; NULL: not stated" }
peak_source = { type = "VARCHAR", doc = "gpu_peak.source; NULL: the GPU's name fits no entry" }
gpu_count = { type = "BIGINT", doc = "GPUs that it rests on", unit = "count" }
gpu_s = { type = "DOUBLE", doc = "GPU-seconds that it rests on", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "gpu_s by the GPU-seconds of all windows that are the job's on that model", unit = "ratio" }
logged_mfu_ratio = { type = "DOUBLE", doc = "job_mfu.mfu_ratio of the same attempt and day under the default convention; NULL: no step logs", unit = "ratio" }
is_within = { type = "BOOLEAN", doc = "that figure lies in the range; NULL: there is none to check, or it is of GPUs of several models" }

[params.min_issue_ratio]
default = 0.6
doc = "ratio; least share of the full rate at which a tensor-active cycle works. Own choice: small tiles and waiting operands, no public measurement; is_within tests it on jobs that have step logs."
*/
WITH named AS (SELECT DISTINCT gpu_model FROM gpu_job_5min WHERE gpu_model IS NOT NULL),
-- The first pattern that fits decides, whatever the precision. MIG instances bear their parent's name.
peak_model AS (
    SELECT n.gpu_model, arg_min(p.gpu_model, (match_order, pattern)) AS peak_model
    FROM named n
    JOIN gpu_peak p ON regexp_matches(n.gpu_model, '(?i)' || pattern)
    WHERE NOT regexp_matches(n.gpu_model, '(?i)\bMIG\b')
    GROUP BY n.gpu_model
),
peak AS (
    SELECT
        m.gpu_model,
        max(spec_clock_mhz) AS spec_clock_mhz,
        max(dense_tflops) FILTER (precision = 'fp16_bf16') AS bf16_tflops,
        max(dense_tflops) FILTER (precision = 'fp8') AS fp8_tflops,
        max(dense_tflops) FILTER (precision = 'fp4') AS fp4_tflops,
        max(dense_tflops) FILTER (precision = 'tf32') AS tf32_tflops,
        arg_max(source, precision = 'fp16_bf16') AS peak_source
    FROM peak_model m
    JOIN gpu_peak p ON p.gpu_model = m.peak_model
    GROUP BY m.gpu_model
),
measured AS (
    SELECT
        cluster, job_id, attempt, gpu_model, gpu_uuid, minute_count, tensor_active_ratio, tensor_rate_mhz,
        date_trunc('day', window_ts)::TIMESTAMP AS day_ts,
        -- Too few peers only forbid comparing.
        coalesce(obstacle, 'few_peers') = 'few_peers' AND tensor_rate_mhz IS NOT NULL AS is_used
    FROM gpu_job_5min
    WHERE job_id IS NOT NULL AND gpu_model IS NOT NULL
),
active AS (
    SELECT
        cluster, job_id, attempt, day_ts, gpu_model,
        count(DISTINCT gpu_uuid) FILTER (is_used) AS gpu_count,
        coalesce(sum(60.0 * minute_count) FILTER (is_used), 0)::DOUBLE AS gpu_s,
        count(*) * 300.0 AS held_gpu_s,
        -- Rounded, so that the order of addition never shows.
        round(sum(tensor_active_ratio * minute_count) FILTER (is_used) / sum(minute_count) FILTER (is_used), 9)
            AS tensor_active_ratio,
        round(sum(tensor_rate_mhz * minute_count) FILTER (is_used) / sum(minute_count) FILTER (is_used), 9)
            AS tensor_rate_mhz
    FROM measured
    GROUP BY cluster, job_id, attempt, day_ts, gpu_model
),
ranged AS (
    SELECT
        a.*, spec_clock_mhz, precision, peak_source,
        tensor_rate_mhz / spec_clock_mhz AS executed_ratio,
        -- Full recomputation executes a third more than the model needs.
        if(recompute = 'none', 1, 0.75) AS lower_share,
        if(recompute = 'full', 0.75, 1) AS upper_share,
        CASE precision WHEN 'fp8' THEN fp8_tflops WHEN 'fp4' THEN fp4_tflops WHEN 'tf32' THEN tf32_tflops ELSE bf16_tflops END
            AS lower_peak_tflops,
        if(precision IS NULL, coalesce(fp8_tflops, bf16_tflops), lower_peak_tflops) AS upper_peak_tflops
    FROM active a
    LEFT JOIN peak USING (gpu_model)
    LEFT JOIN model_shape s ON s.cluster = a.cluster AND s.job_id = a.job_id
    WHERE gpu_s > 0
),
logged AS (
    SELECT cluster, job_id, attempt, day_ts, mfu_ratio
    FROM job_mfu
    WHERE is_default AND time_basis = 'absolute' AND NOT is_implausible
)
SELECT
    r.cluster, r.job_id, r.attempt, r.day_ts, r.gpu_model,
    'telemetry_estimate' AS method,
    executed_ratio * lower_share * getvariable('min_issue_ratio') AS mfu_lower_ratio,
    executed_ratio * upper_share AS mfu_upper_ratio,
    mfu_lower_ratio * lower_peak_tflops AS model_tflops_lower,
    mfu_upper_ratio * upper_peak_tflops AS model_tflops_upper,
    tensor_active_ratio,
    tensor_rate_mhz / nullif(tensor_active_ratio, 0) / spec_clock_mhz AS clock_ratio,
    spec_clock_mhz, precision, peak_source, gpu_count, gpu_s,
    gpu_s / held_gpu_s AS coverage_ratio,
    mfu_ratio AS logged_mfu_ratio,
    if(count(*) OVER (PARTITION BY r.cluster, r.job_id, r.attempt, r.day_ts) = 1,
        mfu_ratio BETWEEN mfu_lower_ratio AND mfu_upper_ratio, NULL) AS is_within
FROM ranged r
LEFT JOIN logged l ON l.cluster = r.cluster AND l.job_id = r.job_id AND l.attempt = r.attempt AND l.day_ts = r.day_ts
