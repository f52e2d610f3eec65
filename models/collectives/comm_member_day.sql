/*
doc = "Ranks of communicators whose operations were recorded, per day: what rank_identity takes from operation records, without reading them all again."
grain = ["cluster", "job_id", "attempt", "day_ts", "node", "pid", "comm_id", "comm_rank"]
time = "day_ts"
sort = ["job_id", "comm_id", "comm_rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job; `unknown` where nobody stated it" }
attempt = { type = "BIGINT", doc = "attempt of the job; 1 where nothing was stated" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day of the dumps" }
node = { type = "VARCHAR", doc = "host of the process" }
pid = { type = "BIGINT", doc = "process on that host" }
comm_id = { type = "VARCHAR", doc = "communicator as the recorder cuts it: 0x and 14 digits" }
comm_rank = { type = "INTEGER", doc = "rank inside the communicator" }
n_ranks = { type = "INTEGER", doc = "ranks of the communicator; NULL where records contradict each other", unit = "count" }
op_count = { type = "BIGINT", doc = "records", unit = "count" }
first_ts = { type = "TIMESTAMP", doc = "first dump" }
last_ts = { type = "TIMESTAMP", doc = "last dump" }
*/
SELECT
    cluster, job_id, coalesce(attempt, 1) AS attempt, date_trunc('day', dump_ts) AS day_ts,
    node, pid, comm_id, comm_rank,
    if(count(DISTINCT n_ranks) = 1, min(n_ranks), NULL) AS n_ranks,
    count(*) AS op_count,
    min(dump_ts) AS first_ts,
    max(dump_ts) AS last_ts
FROM collective_perf
GROUP BY ALL
