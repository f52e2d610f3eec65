/*
doc = "How much of each job rank_identity could name: what joins of collective records with hosts and GPUs rest on. A share is of what was seen; what no source saw shows only in member_coverage_ratio."
grain = ["cluster", "job_id", "attempt"]
sort = ["cluster", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job" }
comm_count = { type = "BIGINT", doc = "communicators whose id is known", unit = "count" }
member_count = { type = "BIGINT", doc = "ranks of communicators seen, pointers included", unit = "count" }
member_coverage_ratio = { type = "DOUBLE", doc = "ranks seen / ranks that the communicators with known id and size have; NULL where none has both", unit = "ratio" }
node_known_count = { type = "BIGINT", doc = "of member_count those with host and process", unit = "count" }
rank_known_count = { type = "BIGINT", doc = "of member_count those with a global rank", unit = "count" }
gpu_known_count = { type = "BIGINT", doc = "of member_count those with a GPU", unit = "count" }
conflict_count = { type = "BIGINT", doc = "of member_count those about which sources contradict each other", unit = "count" }
node_coverage_ratio = { type = "DOUBLE", doc = "node_known_count / member_count; NULL without members", unit = "ratio" }
rank_coverage_ratio = { type = "DOUBLE", doc = "rank_known_count / member_count", unit = "ratio" }
gpu_coverage_ratio = { type = "DOUBLE", doc = "gpu_known_count / member_count", unit = "ratio" }
recorder_rank_count = { type = "BIGINT", doc = "global ranks that left a record of their process groups (collective_group)", unit = "count" }
recorder_rank_known_count = { type = "BIGINT", doc = "of recorder_rank_count those whose process is known", unit = "count" }
*/
WITH comm AS (
    SELECT cluster, job_id, attempt, comm_key, count(*) AS seen, max(n_ranks) AS size
    FROM rank_identity
    WHERE starts_with(comm_key, '0x')
    GROUP BY ALL
),
comms AS (
    SELECT cluster, job_id, attempt, count(*) AS comm_count,
        sum(seen) FILTER (size IS NOT NULL)::DOUBLE / sum(size) AS member_coverage_ratio
    FROM comm
    GROUP BY ALL
),
members AS (
    SELECT
        cluster, job_id, attempt,
        count(*) FILTER (comm_rank >= 0) AS member_count,
        count(*) FILTER (comm_rank >= 0 AND node IS NOT NULL AND pid IS NOT NULL) AS node_known_count,
        count(*) FILTER (comm_rank >= 0 AND rank IS NOT NULL) AS rank_known_count,
        count(*) FILTER (comm_rank >= 0 AND gpu_uuid IS NOT NULL) AS gpu_known_count,
        count(*) FILTER (comm_rank >= 0 AND len(conflicts) > 0) AS conflict_count
    FROM rank_identity
    GROUP BY ALL
),
recorder AS (
    SELECT cluster, job_id, attempt, rank, bool_or(i.node IS NOT NULL) AS is_known
    FROM (SELECT DISTINCT cluster, job_id, attempt, rank FROM collective_group) AS g
    LEFT JOIN rank_identity AS i USING (cluster, job_id, attempt, rank)
    GROUP BY ALL
),
recorders AS (
    SELECT cluster, job_id, attempt, count(*) AS recorder_rank_count, count(*) FILTER (is_known) AS recorder_rank_known_count
    FROM recorder
    GROUP BY ALL
)
SELECT
    cluster, job_id, attempt,
    coalesce(comm_count, 0) AS comm_count,
    coalesce(member_count, 0) AS member_count,
    member_coverage_ratio,
    coalesce(node_known_count, 0) AS node_known_count,
    coalesce(rank_known_count, 0) AS rank_known_count,
    coalesce(gpu_known_count, 0) AS gpu_known_count,
    coalesce(conflict_count, 0) AS conflict_count,
    node_known_count / nullif(member_count, 0) AS node_coverage_ratio,
    rank_known_count / nullif(member_count, 0) AS rank_coverage_ratio,
    gpu_known_count / nullif(member_count, 0) AS gpu_coverage_ratio,
    coalesce(recorder_rank_count, 0) AS recorder_rank_count,
    coalesce(recorder_rank_known_count, 0) AS recorder_rank_known_count
FROM members
FULL JOIN comms USING (cluster, job_id, attempt)
FULL JOIN recorders USING (cluster, job_id, attempt)
