/*
doc = "How far each rank stands behind the foremost rank of each of its process groups, by the sequence numbers in its dump. Numbers of one group count the same operations on all its ranks, so no clock is needed. A lag in enqueued operations alone points to a host that stopped issuing, one in completed operations to a device or link; behind in a single group proves nothing, since ranks wait for each other."
grain = ["cluster", "job_id", "attempt", "pg_name", "rank"]
sort = ["job_id", "pg_name", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
pg_name = { type = "VARCHAR", doc = "process group" }
pg_desc = { type = "VARCHAR", doc = "what the framework calls the group; pipeline groups run ahead by design, and their lag says little" }
rank = { type = "INTEGER", doc = "global rank" }
enqueued_lag_count = { type = "BIGINT", doc = "collectives enqueued by the foremost rank and not by this one; NULL where its dump does not say", unit = "count" }
completed_lag_count = { type = "BIGINT", doc = "collectives completed by the foremost rank and not by this one", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "ranks of the group that left a dump; NULL where its size is unknown", unit = "ratio" }
*/
SELECT cluster, job_id, attempt, pg_name, pg_desc, rank,
    max(last_enqueued_seq) OVER ranks - last_enqueued_seq AS enqueued_lag_count,
    max(last_completed_seq) OVER ranks - last_completed_seq AS completed_lag_count,
    count(*) OVER ranks / pg_size AS coverage_ratio
FROM collective_group
WINDOW ranks AS (PARTITION BY cluster, job_id, attempt, pg_name)
