/*
doc = """
MFU per cluster, UTC day and GPU model, and of the whole cluster (gpu_model 'all'), by the default convention:
model FLOPs of the jobs over the peak of the GPUs that worked on them, so that a mixed fleet's figure is
weighted by peak. Only jobs with a figure count; coverage_ratio says how many of those with step logs have one.
Days of logs without clock times are left out. Jobs without a figure of that day whose telemetry gives a range
(job_mfu_estimate) enter mfu_lower_ratio and mfu_upper_ratio only.
"""
grain = ["cluster", "day_ts", "gpu_model"]
time = "day_ts"
sort = ["cluster", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
gpu_model = { type = "VARCHAR", doc = "GPU model of the jobs, several with + between; all: every job" }
convention = { type = "VARCHAR", doc = "how FLOPs are counted, as in job_mfu; NULL: only telemetry tells, which counts none" }
mfu_ratio = { type = "DOUBLE", doc = "model FLOPs by the peak of the same GPU-seconds; NULL: no job has a figure", unit = "ratio" }
mfu_lower_ratio = { type = "DOUBLE", doc = "the same with the estimated jobs at the low end of their range; mfu_ratio where there are none", unit = "ratio" }
mfu_upper_ratio = { type = "DOUBLE", doc = "the same with the estimated jobs at the high end", unit = "ratio" }
gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the steps that mfu_ratio rests on; NULL: none", unit = "s" }
estimated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds that only telemetry tells of, in the range", unit = "s", null = false }
job_count = { type = "BIGINT", doc = "job attempts with a figure from step logs", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "job_count by the job attempts with logged steps that day; NULL: there are none", unit = "ratio" }
*/
WITH logged AS (
    SELECT
        cluster, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        count(DISTINCT (job_id, attempt)) AS logged_count
    FROM train_step_run
    WHERE time_basis = 'absolute'
    GROUP BY ALL
),
figure AS (
    SELECT
        cluster, day_ts, job_id, attempt, gpu_model, convention,
        mfu_ratio * peak_gpu_s AS model_tflop, peak_gpu_s, gpu_count * step_s AS gpu_s
    FROM job_mfu
    WHERE is_default AND time_basis = 'absolute' AND mfu_ratio IS NOT NULL AND peak_gpu_s > 0 AND gpu_model IS NOT NULL
),
estimate AS (
    SELECT
        e.cluster, e.day_ts, e.gpu_model, gpu_s,
        model_tflops_lower * gpu_s AS lower_tflop,
        mfu_upper_ratio / mfu_lower_ratio * model_tflops_lower * gpu_s AS upper_tflop,
        -- Both ends by the same peak: of the stated precision, else BF16's.
        model_tflops_lower / mfu_lower_ratio * gpu_s AS peak_gpu_s
    FROM job_mfu_estimate e
    ANTI JOIN figure f
        ON f.cluster = e.cluster AND f.day_ts = e.day_ts AND f.job_id = e.job_id AND f.attempt = e.attempt
    WHERE mfu_lower_ratio > 0 AND model_tflops_lower IS NOT NULL
),
part AS (
    SELECT
        cluster, day_ts, gpu_model, convention, model_tflop, model_tflop AS lower_tflop, model_tflop AS upper_tflop,
        peak_gpu_s, peak_gpu_s AS logged_peak_gpu_s, gpu_s, 0.0 AS estimated_gpu_s, 1 AS job_count
    FROM figure
    UNION ALL
    SELECT cluster, day_ts, gpu_model, NULL, NULL, lower_tflop, upper_tflop, peak_gpu_s, NULL, NULL, gpu_s, 0
    FROM estimate
),
grouped AS (
    SELECT cluster, day_ts, unnest([gpu_model, 'all']) AS gpu_model, * EXCLUDE (cluster, day_ts, gpu_model) FROM part
)
SELECT
    cluster, day_ts, gpu_model,
    max(convention) AS convention,
    sum(model_tflop) / sum(logged_peak_gpu_s) AS mfu_ratio,
    sum(lower_tflop) / sum(peak_gpu_s) AS mfu_lower_ratio,
    sum(upper_tflop) / sum(peak_gpu_s) AS mfu_upper_ratio,
    sum(gpu_s) AS gpu_s,
    sum(estimated_gpu_s) AS estimated_gpu_s,
    sum(job_count)::BIGINT AS job_count,
    sum(job_count) / any_value(logged_count)::DOUBLE AS coverage_ratio
FROM grouped
LEFT JOIN logged USING (cluster, day_ts)
GROUP BY ALL
