/*
doc = "Which GPU reported under which number of a node each day: what joins a node and a device number to a GPU. A number that two GPUs reported under on one day belongs to both rows."
grain = ["cluster", "day_ts", "node", "gpu_uuid", "gpu_index"]
time = "day_ts"
sort = ["cluster", "node", "gpu_index"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
node = { type = "VARCHAR", doc = "host as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_index = { type = "INTEGER", doc = "the driver's number of the GPU on that node; -1 where the exporter gives none" }
sample_count = { type = "BIGINT", doc = "samples of the whole GPU", unit = "count" }
first_ts = { type = "TIMESTAMP", doc = "first of them" }
last_ts = { type = "TIMESTAMP", doc = "last of them" }
*/
SELECT
    cluster,
    date_trunc('day', ts) AS day_ts,
    node,
    gpu_uuid,
    coalesce(gpu_index, -1) AS gpu_index,
    count(*) AS sample_count,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM gpu_sample
WHERE mig_instance = ''
GROUP BY ALL
