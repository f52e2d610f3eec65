/*
doc = "How often a job read a checkpoint in a day, in units of the whole, beside how often its starts and GPUs explain."
grain = ["cluster", "job_id", "checkpoint", "day_ts"]
time = "day_ts"
lookback = "1d"

[columns]
cluster = { type = "VARCHAR", doc = "weight_read.cluster" }
job_id = { type = "VARCHAR", doc = "weight_read.covering_job_id" }
checkpoint = { type = "VARCHAR", doc = "weight_read.checkpoint" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
job_name = { type = "VARCHAR", doc = "name given at submission" }
gpu_count = { type = "INTEGER", doc = "GPUs of the largest start; NULL: not recorded", unit = "count" }
principals = { type = "VARCHAR[]", doc = "who read, at most 20" }
ips = { type = "VARCHAR[]", doc = "from where, at most 20" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint", unit = "bytes" }
read_bytes = { type = "BIGINT", doc = "bytes read at most, repeated reads included", unit = "bytes" }
start_count = { type = "BIGINT", doc = "starts of the job from the day before on, one at least", unit = "count" }
reader_count = { type = "BIGINT", doc = "replicas that may each read the whole: GPUs of the largest start, else nodes, else 1", unit = "count" }
reads_per_start = { type = "DOUBLE", doc = "read_bytes / checkpoint_bytes / start_count", unit = "ratio" }
first_ts = { type = "TIMESTAMP", doc = "first read" }
last_ts = { type = "TIMESTAMP", doc = "last read" }
*/
WITH starts AS (
    SELECT
        w.cluster, w.covering_job_id AS job_id, w.checkpoint, w.day_ts,
        min(j.job_name) AS job_name,
        max(j.alloc_gpus) AS gpu_count,
        count(DISTINCT j.attempt) FILTER (j.start_ts >= w.day_ts - INTERVAL 1 DAY AND j.start_ts < w.day_ts + INTERVAL 1 DAY) AS start_count,
        max(coalesce(j.alloc_gpus, j.alloc_nodes)) AS reader_count
    FROM (SELECT DISTINCT cluster, covering_job_id, checkpoint, day_ts FROM weight_read WHERE covering_job_id IS NOT NULL) w
    LEFT JOIN job_attempt j
        ON w.covering_job_id = j.job_id AND j.attempt_ts < w.day_ts + INTERVAL 1 DAY
        AND coalesce(j.end_ts, 'infinity'::TIMESTAMP) > w.day_ts - INTERVAL 1 DAY
    GROUP BY ALL
)

SELECT
    w.cluster, s.job_id, w.checkpoint, w.day_ts,
    min(w.family) AS family,
    min(s.job_name) AS job_name,
    max(s.gpu_count) AS gpu_count,
    list_sort(list(DISTINCT w.principal)) [1:20] AS principals,
    coalesce(list_sort(list(DISTINCT w.ip) FILTER (w.ip IS NOT NULL)), []) [1:20] AS ips,
    max(w.checkpoint_bytes) AS checkpoint_bytes,
    sum(w.most_bytes)::BIGINT AS read_bytes,
    greatest(1, max(s.start_count)) AS start_count,
    greatest(1, coalesce(max(s.reader_count), 1))::BIGINT AS reader_count,
    sum(w.most_bytes) / max(w.checkpoint_bytes) / greatest(1, max(s.start_count)) AS reads_per_start,
    min(w.ts) AS first_ts,
    max(w.ts) AS last_ts
FROM weight_read w
JOIN starts s
    ON w.cluster = s.cluster AND w.covering_job_id = s.job_id AND w.checkpoint = s.checkpoint AND w.day_ts = s.day_ts
GROUP BY w.cluster, s.job_id, w.checkpoint, w.day_ts
