/*
doc = "Where each rank ran by its own step records, per day: what rank_identity takes from steps, without reading them all again."
grain = ["cluster", "job_id", "attempt", "day_ts", "rank", "node", "pid", "gpu_uuid"]
time = "day_ts"
sort = ["job_id", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
rank = { type = "INTEGER", doc = "global rank" }
node = { type = "VARCHAR", doc = "host; `unknown` where the records name none" }
pid = { type = "BIGINT", doc = "process; -1 where the records name none" }
gpu_uuid = { type = "VARCHAR", doc = "GPU; `unknown` where the records name none" }
step_count = { type = "BIGINT", doc = "steps", unit = "count" }
first_ts = { type = "TIMESTAMP", doc = "start of the first" }
last_ts = { type = "TIMESTAMP", doc = "start of the last" }
*/
SELECT
    cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, rank,
    coalesce(node, 'unknown') AS node,
    coalesce(pid, -1) AS pid,
    coalesce(gpu_uuid, 'unknown') AS gpu_uuid,
    count(*) AS step_count,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM step_sample
WHERE time_basis = 'absolute' AND (node IS NOT NULL OR gpu_uuid IS NOT NULL)
GROUP BY ALL
