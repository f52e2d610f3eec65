/*
doc = """
One name for each spelling of a GPU model: the scheduler's h100, Kubernetes' NVIDIA-H100-80GB-HBM3 and the driver's NVIDIA H100 80GB HBM3 are one pool. The name is that
of the first pattern of gpu_peak that fits; a spelling that fits none stays as it is. A short spelling takes the commonest form (h100: SXM).
"""
grain = ["raw_model"]
sort = ["raw_model"]

[columns]
raw_model = { type = "VARCHAR", doc = "as a job, node or inventory spells it" }
gpu_model = { type = "VARCHAR", doc = "gpu_peak.gpu_model, else raw_model" }
dense_tflops = { type = "DOUBLE", doc = "peak rate of dense BF16 products; NULL if it fits no pattern", unit = "TFLOP/s" }
*/
WITH spelling AS (
    SELECT DISTINCT unnest(gpu_models) AS raw_model FROM job_attempt
    UNION SELECT DISTINCT unnest(gpu_models) FROM node_state
    UNION SELECT DISTINCT gpu_model FROM inventory_gpu_span
)
SELECT
    s.raw_model,
    coalesce(first(p.gpu_model ORDER BY p.match_order, p.pattern), s.raw_model) AS gpu_model,
    first(p.dense_tflops ORDER BY p.match_order, p.pattern) AS dense_tflops
FROM spelling AS s
LEFT JOIN gpu_peak AS p ON p.precision = 'fp16_bf16' AND regexp_matches(s.raw_model, p.pattern, 'i')
WHERE s.raw_model <> ''
GROUP BY s.raw_model
