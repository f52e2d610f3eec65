/*
doc = """
Which process (its GPU and NIC), node, leaf switch or pair of ranks explains the communicators and pairs
that were slow on a day: group testing. A member of any communicator that was as fast as its peers is
cleared; of the members left, the one in most of the slow ones is named. Between nodes and inside a node
are judged apart, since a slow NIC does not show inside a node and a slow NVLink seldom between nodes.
"""
grain = ["cluster", "day_ts", "scope", "element_kind", "element"]
time = "day_ts"
sort = ["scope", "element_kind", "element"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
scope = { type = "VARCHAR", doc = "inter_node (network) or intra_node (NVLink, PCIe, shared memory)" }
element_kind = { type = "VARCHAR", doc = "process (one rank's GPU and NIC), node, leaf_switch, or link (a pair whose two ends are fast with others)" }
element = { type = "VARCHAR", doc = "node/GPU (node/pid where the GPU is not known), node, switch, or two processes joined by >" }
node = { type = "VARCHAR[]", doc = "nodes of the element" }
pid = { type = "BIGINT", doc = "process on that node; NULL unless it is one process of one job" }
rank = { type = "INTEGER", doc = "its global rank, where rank_identity says so without contradiction and it is one" }
gpu_uuid = { type = "VARCHAR", doc = "its GPU, where rank_identity says so without contradiction" }
job_id = { type = "VARCHAR[]", doc = "jobs whose slow communicators it explains" }
verdict = { type = "VARCHAR", doc = "culprit (no other member explains these slow communicators as well), candidate (others explain them as well, and what was recorded cannot tell them apart)" }
candidate_count = { type = "BIGINT", doc = "elements that explain them equally well, this one included", unit = "count" }
slow_count = { type = "BIGINT", doc = "slow communicators and pairs with it that it explains best", unit = "count" }
cleared_count = { type = "BIGINT", doc = "members of these that a fast communicator clears", unit = "count" }
all_slow_count = { type = "BIGINT", doc = "slow communicators and pairs of the cluster, day and scope", unit = "count" }
ratio = { type = "DOUBLE", doc = "median of their busbw over their peers'", unit = "ratio" }
ratio_lower = { type = "DOUBLE", doc = "lowest of these", unit = "ratio" }
ratio_upper = { type = "DOUBLE", doc = "highest of these", unit = "ratio" }
lost_gpu_s = { type = "DOUBLE", doc = "what the recorded operations took longer than the peers', times the ranks that waited", unit = "s" }
first_ts = { type = "TIMESTAMP", doc = "first dump with a slow operation" }
last_ts = { type = "TIMESTAMP", doc = "last one" }
coverage_ratio = { type = "DOUBLE", doc = "ranks with records of the ranks of these communicators; who left none cannot be named", unit = "ratio" }
*/
WITH test AS (
    SELECT
        cluster, day_ts, job_id, comm_id, sender_comm_rank, receiver_comm_rank,
        if(n_nodes > 1, 'inter_node', 'intra_node') AS scope,
        hash(cluster, day_ts, job_id, comm_id, sender_comm_rank, receiver_comm_rank) AS test_id,
        -- A communicator is slow if any size is; it clears its members only if all sizes are normal.
        bool_or(verdict = 'slow') AS is_slow,
        bool_and(verdict = 'normal') AS is_normal,
        median(ratio) FILTER (verdict = 'slow') AS ratio,
        sum(lost_s * n_ranks) FILTER (verdict = 'slow') AS lost_gpu_s,
        min(first_ts) FILTER (verdict = 'slow') AS first_ts,
        max(last_ts) FILTER (verdict = 'slow') AS last_ts,
        min(seen_rank_ratio) AS seen_rank_ratio
    FROM comm_perf_day
    WHERE verdict IN ('slow', 'normal', 'unclear')
    GROUP BY ALL
),

identity AS (
    SELECT
        cluster, job_id, node, pid,
        if(min(rank) = max(rank), min(rank), NULL) AS rank,
        if(min(gpu_uuid) = max(gpu_uuid), min(gpu_uuid), NULL) AS gpu_uuid
    FROM rank_identity
    GROUP BY ALL
),

-- The GPU is the same in all jobs, the number of a process is not.
process AS (
    SELECT DISTINCT
        cluster, date_trunc('day', dump_ts)::TIMESTAMP AS day_ts, job_id, comm_id, comm_rank, node,
        pid, rank, gpu_uuid, concat_ws('/', node, coalesce(gpu_uuid, pid::VARCHAR)) AS process
    FROM collective_perf
    LEFT JOIN identity USING (cluster, job_id, node, pid)
),

member AS (
    SELECT t.*, comm_rank, node, pid, rank, gpu_uuid, process
    FROM test AS t
    JOIN process AS p USING (cluster, day_ts, job_id, comm_id)
    WHERE (is_slow OR is_normal)
        AND (sender_comm_rank < 0 OR comm_rank IN (sender_comm_rank, receiver_comm_rank))
),

cleared AS (
    SELECT DISTINCT cluster, day_ts, scope, process, true AS is_cleared
    FROM member
    WHERE is_normal AND NOT is_slow
),

-- Without a known GPU a process is another one in every job; but a node whose processes were all as fast
-- as their peers in another job, and were no fewer there, is cleared with all of them.
node_job AS (
    SELECT
        cluster, day_ts, scope, node, job_id,
        bool_and(is_normal) AS all_normal,
        count(DISTINCT process) AS processes
    FROM member
    GROUP BY ALL
),

cleared_node AS (
    SELECT DISTINCT cluster, day_ts, scope, node, true AS is_node_cleared
    FROM (
        SELECT *, max(processes) OVER (PARTITION BY cluster, day_ts, scope, node) AS most_processes
        FROM node_job
    )
    WHERE all_normal AND processes = most_processes
),

marked AS (
    SELECT
        m.*,
        coalesce(is_cleared, false) OR (gpu_uuid IS NULL AND coalesce(is_node_cleared, false))
            AS is_cleared
    FROM member AS m
    LEFT JOIN cleared USING (cluster, day_ts, scope, process)
    LEFT JOIN cleared_node USING (cluster, day_ts, scope, node)
    WHERE is_slow
),

suspect AS (
    SELECT
        *,
        count(DISTINCT test_id) OVER same_process AS slow_tests,
        count(DISTINCT test_id) FILTER (NOT is_cleared) OVER same_node AS node_slow_tests
    FROM marked
    WINDOW
        same_process AS (PARTITION BY cluster, day_ts, scope, process),
        same_node AS (PARTITION BY cluster, day_ts, scope, node)
),

switch AS (
    SELECT cluster, node, max(leaf_switch) AS leaf_switch
    FROM inventory_gpu_span
    GROUP BY ALL
),

-- Of each slow test the members left over, of these the ones in most slow tests, and among equals those
-- of the node in most of them.
likely AS (
    SELECT s.*, leaf_switch
    FROM suspect AS s
    LEFT JOIN switch USING (cluster, node)
    WHERE NOT is_cleared
    QUALIFY slow_tests = max(slow_tests) OVER (PARTITION BY test_id)
),

best AS (
    SELECT *
    FROM likely
    QUALIFY node_slow_tests = max(node_slow_tests) OVER (PARTITION BY test_id)
),

blamed AS (
    SELECT
        test_id,
        count(DISTINCT process) AS processes,
        count(DISTINCT node) AS node_count,
        max(slow_tests) < max(node_slow_tests) AS is_shared_by_node,
        if(count(leaf_switch) = count(*), count(DISTINCT leaf_switch), NULL) AS switches,
        CASE
            WHEN node_count = 1 AND (processes > 1 OR is_shared_by_node) THEN 'node'
            WHEN processes = 1 OR switches IS DISTINCT FROM 1 THEN 'process'
            ELSE 'leaf_switch'
        END AS element_kind
    FROM best
    GROUP BY test_id
),

named AS (
    SELECT DISTINCT
        b.cluster, b.day_ts, b.scope, b.test_id, b.job_id, b.ratio, b.lost_gpu_s, b.first_ts,
        b.last_ts, b.seen_rank_ratio, element_kind,
        CASE element_kind WHEN 'process' THEN process WHEN 'node' THEN node ELSE leaf_switch END
            AS element,
        if(element_kind = 'leaf_switch', NULL, node) AS node,
        if(element_kind = 'process', pid, NULL) AS pid,
        if(element_kind = 'process', rank, NULL) AS rank,
        if(element_kind = 'process', gpu_uuid, NULL) AS gpu_uuid,
        if(element_kind = 'process', processes, 1) AS candidate_count
    FROM best AS b
    JOIN blamed USING (test_id)
    UNION ALL
    -- Both ends are fast with others, so it lies between them.
    SELECT
        cluster, day_ts, scope, test_id, min(job_id), min(ratio),
        min(lost_gpu_s), min(first_ts), min(last_ts),
        min(seen_rank_ratio), 'link',
        string_agg(process, '>' ORDER BY comm_rank = receiver_comm_rank), NULL, NULL, NULL, NULL, 1
    FROM suspect
    WHERE sender_comm_rank >= 0
    GROUP BY cluster, day_ts, scope, test_id
    HAVING bool_and(is_cleared)
),

clearance AS (
    SELECT test_id, count(*) FILTER (is_cleared) AS cleared_members
    FROM suspect
    GROUP BY test_id
),

total AS (
    SELECT cluster, day_ts, scope, count(*) FILTER (is_slow) AS all_slow_count
    FROM test
    GROUP BY ALL
)

SELECT
    cluster, day_ts, scope, element_kind, element,
    coalesce(
        list_sort(list(DISTINCT node) FILTER (node IS NOT NULL)),
        if(
            element_kind = 'link',
            list_sort(list_distinct(list_transform(
                string_split(element, '>'), lambda part: regexp_replace(part, '/[^/]*$', '')
            ))),
            []
        )
    ) AS node,
    if(count(DISTINCT pid) = 1, min(pid), NULL) AS pid,
    if(count(DISTINCT rank) = 1, min(rank), NULL) AS rank,
    min(gpu_uuid) AS gpu_uuid,
    list_sort(list(DISTINCT job_id)) AS job_id,
    if(min(candidate_count) = 1, 'culprit', 'candidate') AS verdict,
    min(candidate_count) AS candidate_count,
    count(*) AS slow_count,
    sum(cleared_members)::BIGINT AS cleared_count,
    max(all_slow_count) AS all_slow_count,
    median(ratio) AS ratio,
    min(ratio) AS ratio_lower,
    max(ratio) AS ratio_upper,
    round(fsum(lost_gpu_s), 6) AS lost_gpu_s,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts,
    min(seen_rank_ratio) AS coverage_ratio
FROM named
JOIN clearance USING (test_id)
JOIN total USING (cluster, day_ts, scope)
GROUP BY cluster, day_ts, scope, element_kind, element
