/*
doc = "Share of the GPUs that jobs held, per model and day, by three denominators that give three numbers: installed, in service, and in service without what reservations set aside. Model '*' is the whole cluster. NULL where the denominator is not known."
grain = ["cluster", "gpu_model", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "gpu_model"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
gpu_model = { type = "VARCHAR", doc = "node_capacity_day.gpu_model; * for all" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held", unit = "s" }
installed_gpu_s = { type = "DOUBLE", doc = "GPU-seconds installed", unit = "s" }
in_service_gpu_s = { type = "DOUBLE", doc = "GPU-seconds in service", unit = "s" }
open_gpu_s = { type = "DOUBLE", doc = "in service and not reserved; only for *, as reservations do not say a model", unit = "s" }
installed_ratio = { type = "DOUBLE", doc = "allocated by installed", unit = "ratio" }
in_service_ratio = { type = "DOUBLE", doc = "allocated by in service", unit = "ratio" }
open_ratio = { type = "DOUBLE", doc = "allocated outside reservations by open_gpu_s", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of the nodes' job time with known GPUs, and 0 if no capacity is known", unit = "ratio" }
*/
WITH summed AS (
    SELECT
        cluster, coalesce(gpu_model, '*') AS gpu_model, day_ts,
        sum(allocated_gpu_s) AS allocated_gpu_s,
        sum(installed_gpu_s) AS installed_gpu_s,
        CASE WHEN count(in_service_gpu_s) = count(installed_gpu_s) THEN sum(in_service_gpu_s) END AS in_service_gpu_s,
        avg(if(installed_gpu_s IS NULL, 0, coverage_ratio)) AS coverage_ratio
    FROM node_capacity_day
    GROUP BY GROUPING SETS ((cluster, day_ts, gpu_model), (cluster, day_ts))
),
reserved AS (
    SELECT cluster, day_ts, sum(reserved_gpu_s) AS reserved_gpu_s, sum(used_gpu_s) AS used_gpu_s
    FROM reservation_waste
    GROUP BY ALL
)
SELECT
    cluster, gpu_model, day_ts, allocated_gpu_s, installed_gpu_s, in_service_gpu_s,
    CASE WHEN gpu_model = '*' THEN in_service_gpu_s - coalesce(reserved_gpu_s, 0) END AS open_gpu_s,
    allocated_gpu_s / nullif(installed_gpu_s, 0) AS installed_ratio,
    allocated_gpu_s / nullif(in_service_gpu_s, 0) AS in_service_ratio,
    CASE WHEN gpu_model = '*' THEN
        (allocated_gpu_s - coalesce(used_gpu_s, 0)) / nullif(in_service_gpu_s - coalesce(reserved_gpu_s, 0), 0)
    END AS open_ratio,
    coverage_ratio
FROM summed
LEFT JOIN reserved USING (cluster, day_ts)
