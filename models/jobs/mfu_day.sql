/*
doc = """
MFU per cluster, UTC day and GPU model, and of the whole cluster (gpu_model 'all'), by the default convention:
model FLOPs of the jobs over the peak of the GPUs that worked on them, so that a mixed fleet's figure is
weighted by peak. Only jobs with a figure count; coverage_ratio says how many of those with step logs have one.
Days of logs without clock times are left out.
"""
grain = ["cluster", "day_ts", "gpu_model"]
time = "day_ts"
sort = ["cluster", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
gpu_model = { type = "VARCHAR", doc = "GPU model of the jobs, several with + between; all: every job" }
convention = { type = "VARCHAR", doc = "how FLOPs are counted, as in job_mfu", null = false }
mfu_ratio = { type = "DOUBLE", doc = "model FLOPs by the peak of the same GPU-seconds; NULL: no job has a figure", unit = "ratio" }
gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the steps it rests on", unit = "s" }
job_count = { type = "BIGINT", doc = "job attempts with a figure", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "job_count by the job attempts with logged steps that day", unit = "ratio" }
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
        cluster, day_ts, unnest([gpu_model, 'all']) AS gpu_model, convention,
        mfu_ratio * peak_gpu_s AS model_tflop, peak_gpu_s, gpu_count * step_s AS gpu_s
    FROM job_mfu
    WHERE is_default AND time_basis = 'absolute' AND mfu_ratio IS NOT NULL AND peak_gpu_s > 0
)
SELECT
    cluster, day_ts, gpu_model, convention,
    sum(model_tflop) / sum(peak_gpu_s) AS mfu_ratio,
    sum(gpu_s) AS gpu_s,
    count(*) AS job_count,
    count(*) / any_value(logged_count)::DOUBLE AS coverage_ratio
FROM figure
JOIN logged USING (cluster, day_ts)
WHERE gpu_model IS NOT NULL
GROUP BY ALL
