/*
doc = """
Who each rank of each communicator is: host, process, device, global rank and GPU, joined from what every
source states (rank_map, and per day comm_member_day and rank_place_day), with the inventory and telemetry for the GPU. Nothing is guessed: what no
source states is NULL, and where sources contradict each other the value is NULL and named in `conflicts`.

Communicators are joined by the first 14 of their 16 hexadecimal digits, since one recorder cuts them. Hosts
are joined by the addresses that processes print. A process's global rank is the one that it states itself
(stated), else its rank in the communicator that holds all ranks of the job (world_communicator): frameworks create
that one in global order. Where a stated rank contradicts that order anywhere in the job, the order is not used.
The GPU is the one stated, else the one that the inventory, or telemetry, has under the driver's device number on that
host: never under CUDA's number, which jobs may turn around.
"""
grain = ["cluster", "job_id", "attempt", "comm_key", "comm_rank"]
sort = ["job_id", "comm_key", "comm_rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job; `unknown` where nobody stated it" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt" }
comm_key = { type = "VARCHAR", doc = "communicator: 0x and the first 14 digits of its id; node/pid/local:pointer where only a pointer is known; process/node/pid or process/node/rank N for a process that no communicator names" }
comm_rank = { type = "INTEGER", doc = "rank inside the communicator; -1 without one" }
comm_id = { type = "VARCHAR", doc = "the communicator's id as the most complete source has it; NULL without communicator" }
n_ranks = { type = "INTEGER", doc = "ranks of the communicator", unit = "count" }
rank = { type = "INTEGER", doc = "global rank" }
rank_source = { type = "VARCHAR", doc = "stated, world_communicator; NULL while the global rank is not known" }
node = { type = "VARCHAR", doc = "host name; an address where no source tells the name" }
pid = { type = "BIGINT", doc = "process on that host" }
cuda_device = { type = "INTEGER", doc = "device as the process numbers it" }
nvml_device = { type = "INTEGER", doc = "device as the driver numbers it" }
pci_bus_id = { type = "VARCHAR", doc = "place of the GPU on the bus" }
gpu_uuid = { type = "VARCHAR", doc = "GPU" }
gpu_source = { type = "VARCHAR", doc = "stated, inventory, telemetry; NULL while the GPU is not known" }
origins = { type = "VARCHAR[]", doc = "sources that name this rank or its process" }
conflicts = { type = "VARCHAR[]", doc = "what sources contradict each other in: comm_id, node, pid, n_ranks, cuda_device, nvml_device, pci_bus_id, rank, gpu_uuid" }
first_stated_ts = { type = "TIMESTAMP", doc = "first statement with a time" }
last_stated_ts = { type = "TIMESTAMP", doc = "last one" }
*/
WITH told AS (
    SELECT * EXCLUDE (stated_ts, file_id, line_no), stated_ts AS first_ts, stated_ts AS last_ts
    FROM rank_map
    UNION ALL BY NAME
    SELECT cluster, job_id, attempt, 'nccl_inspector' AS origin, node, pid, comm_id, comm_rank, n_ranks, first_ts, last_ts
    FROM comm_member_day
    UNION ALL BY NAME
    SELECT cluster, job_id, attempt, 'step_sample' AS origin, node, pid, '' AS comm_id, -1 AS comm_rank, rank,
        nullif(gpu_uuid, 'unknown') AS gpu_uuid, first_ts, last_ts
    FROM rank_place_day
),
learned AS (
    SELECT cluster, job_id, attempt, address, node
    FROM told
    WHERE address IS NOT NULL
    UNION
    -- The same rank of the same communicator, named by an address here and by a name there.
    SELECT cluster, job_id, attempt, a.node, b.node
    FROM told AS a
    JOIN told AS b USING (cluster, job_id, attempt)
    WHERE starts_with(a.comm_id, '0x')
        AND starts_with(b.comm_id, left(a.comm_id, 16))
        AND a.comm_rank = b.comm_rank
        AND regexp_full_match(a.node, '[0-9.]+|[0-9a-fA-F]*:[0-9a-fA-F:]+')
        AND NOT regexp_full_match(b.node, '[0-9.]+|[0-9a-fA-F]*:[0-9a-fA-F:]+|unknown')
),
host AS (
    SELECT cluster, job_id, attempt, address, min(node) AS name
    FROM learned
    GROUP BY ALL
    HAVING count(DISTINCT node) = 1
),
statement AS (
    SELECT
        m.* EXCLUDE (node, pid, comm_id, comm_rank),
        nullif(coalesce(h.name, m.node), 'unknown') AS node,
        nullif(m.pid, -1) AS pid,
        nullif(m.comm_id, '') AS comm_id,
        nullif(m.comm_rank, -1) AS comm_rank,
        CASE
            WHEN starts_with(m.comm_id, '0x') THEN left(m.comm_id, 16)
            WHEN m.comm_id != '' THEN concat_ws('/', coalesce(h.name, m.node), m.pid, m.comm_id)
        END AS comm_key
    FROM told AS m
    LEFT JOIN host AS h ON h.cluster = m.cluster AND h.job_id = m.job_id AND h.attempt = m.attempt
        AND h.address = m.node
),
member AS (
    SELECT
        cluster, job_id, attempt, comm_key, comm_rank,
        max(comm_id) AS any_id,
        list_sort(list(DISTINCT comm_id) FILTER (length(comm_id) = 18)) AS comm_ids,
        list(DISTINCT n_ranks) FILTER (n_ranks IS NOT NULL) AS sizes,
        list(DISTINCT node) FILTER (node IS NOT NULL) AS nodes,
        list(DISTINCT pid) FILTER (pid IS NOT NULL) AS pids,
        list(DISTINCT cuda_device) FILTER (cuda_device IS NOT NULL) AS cuda_devices,
        list(DISTINCT nvml_device) FILTER (nvml_device IS NOT NULL) AS nvml_devices,
        list(DISTINCT pci_bus_id) FILTER (pci_bus_id IS NOT NULL) AS buses,
        list(DISTINCT origin) AS origins,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts
    FROM statement
    WHERE comm_key IS NOT NULL
    GROUP BY ALL
),
one AS (
    SELECT
        * EXCLUDE (any_id, sizes, nodes, pids, cuda_devices, nvml_devices, buses, comm_ids),
        if(coalesce(len(comm_ids), 0) > 1, NULL, coalesce(comm_ids[1], any_id)) AS comm_id,
        if(len(sizes) = 1, sizes[1], NULL) AS n_ranks,
        if(len(nodes) = 1, nodes[1], NULL) AS node,
        if(len(pids) = 1, pids[1], NULL) AS pid,
        if(len(cuda_devices) = 1, cuda_devices[1], NULL) AS cuda_device,
        if(len(nvml_devices) = 1, nvml_devices[1], NULL) AS nvml_device,
        if(len(buses) = 1, buses[1], NULL) AS pci_bus_id,
        list_filter([
            if(len(comm_ids) > 1, 'comm_id', NULL), if(len(nodes) > 1, 'node', NULL),
            if(len(pids) > 1, 'pid', NULL), if(len(sizes) > 1, 'n_ranks', NULL),
            if(len(cuda_devices) > 1, 'cuda_device', NULL),
            if(len(nvml_devices) > 1, 'nvml_device', NULL),
            if(len(buses) > 1, 'pci_bus_id', NULL)
        ], lambda name : name IS NOT NULL) AS conflicts
    FROM member
),
-- What a process says about itself. A process with several devices has a rank for each.
process AS (
    SELECT
        cluster, job_id, attempt, node, pid, cuda_device, if(pid IS NULL, rank, NULL) AS sole_rank,
        list(DISTINCT rank) FILTER (rank IS NOT NULL) AS ranks,
        list(DISTINCT gpu_uuid) FILTER (gpu_uuid IS NOT NULL) AS gpus,
        list(DISTINCT nvml_device) FILTER (nvml_device IS NOT NULL) AS nvml_devices,
        list(DISTINCT origin) AS origins,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts
    FROM statement
    WHERE comm_key IS NULL AND (node IS NOT NULL AND pid IS NOT NULL OR rank IS NOT NULL)
        AND (rank IS NOT NULL OR gpu_uuid IS NOT NULL OR nvml_device IS NOT NULL)
    GROUP BY ALL
),
joined AS (
    SELECT
        coalesce(o.cluster, p.cluster) AS cluster,
        coalesce(o.job_id, p.job_id) AS job_id,
        coalesce(o.attempt, p.attempt) AS attempt,
        coalesce(o.comm_key, concat_ws('/', 'process', p.node, p.pid, p.cuda_device, 'rank ' || p.sole_rank)) AS comm_key,
        coalesce(o.comm_rank, -1) AS comm_rank,
        any_value(o.comm_id) AS comm_id,
        any_value(o.n_ranks) AS n_ranks,
        any_value(coalesce(o.node, p.node)) AS node,
        any_value(coalesce(o.pid, p.pid)) AS pid,
        any_value(coalesce(o.cuda_device, p.cuda_device)) AS cuda_device,
        list_distinct(flatten(list(list_append(
            if(o.cuda_device IS NULL, [], coalesce(p.nvml_devices, [])), o.nvml_device)))) AS nvml_devices,
        any_value(o.pci_bus_id) AS pci_bus_id,
        coalesce(any_value(o.conflicts), []) AS conflicts,
        -- Which of several devices' ranks it is nobody says where the member names no device.
        if(any_value(o.comm_key) IS NOT NULL AND any_value(o.cuda_device) IS NULL
            AND count(DISTINCT p.cuda_device) > 1, [], list_distinct(flatten(list(coalesce(p.ranks, []))))) AS ranks,
        if(any_value(o.comm_key) IS NOT NULL AND any_value(o.cuda_device) IS NULL
            AND count(DISTINCT p.cuda_device) > 1, [], list_distinct(flatten(list(coalesce(p.gpus, []))))) AS gpus,
        list_sort(list_distinct(list_concat(coalesce(any_value(o.origins), []),
            flatten(list(coalesce(p.origins, [])))))) AS origins,
        min(least(o.first_ts, p.first_ts)) AS first_ts,
        max(greatest(o.last_ts, p.last_ts)) AS last_ts
    FROM one AS o
    FULL JOIN process AS p ON p.cluster = o.cluster AND p.job_id = o.job_id AND p.attempt = o.attempt
        AND p.node = o.node AND p.pid = o.pid
        AND (p.cuda_device IS NULL OR o.cuda_device IS NULL OR p.cuda_device = o.cuda_device)
    GROUP BY ALL
),
world AS (
    SELECT cluster, job_id, attempt, if(count(DISTINCT size) = 1, min(size), NULL) AS world_size
    FROM (
        SELECT cluster, job_id, attempt, world_size AS size FROM rank_map WHERE world_size IS NOT NULL
        UNION ALL
        SELECT cluster, job_id, attempt, pg_size FROM collective_group WHERE pg_desc = 'default_pg' AND pg_size IS NOT NULL
    )
    GROUP BY ALL
),
-- A process's place in the communicators of all ranks, and that of each of its devices.
place AS (
    SELECT
        cluster, job_id, attempt, node, pid, cuda_device,
        list(DISTINCT comm_rank) AS places
    FROM joined
    JOIN world USING (cluster, job_id, attempt)
    WHERE n_ranks = world_size AND comm_rank >= 0 AND node IS NOT NULL AND pid IS NOT NULL
    GROUP BY GROUPING SETS (
        (cluster, job_id, attempt, node, pid), (cluster, job_id, attempt, node, pid, cuda_device)
    )
    HAVING grouping(cuda_device) = 1 OR cuda_device IS NOT NULL
),
placed AS (
    SELECT
        j.*,
        CASE
            WHEN len(whole.places) = 1 THEN whole.places[1]
            WHEN len(own.places) = 1 THEN own.places[1]
        END AS place,
        coalesce(len(own.places), 0) > 1 AS is_placed_twice
    FROM joined AS j
    LEFT JOIN place AS whole ON whole.cluster = j.cluster AND whole.job_id = j.job_id
        AND whole.attempt = j.attempt AND whole.node = j.node AND whole.pid = j.pid
        AND whole.cuda_device IS NULL
    LEFT JOIN place AS own ON own.cluster = j.cluster AND own.job_id = j.job_id
        AND own.attempt = j.attempt AND own.node = j.node AND own.pid = j.pid
        AND own.cuda_device = j.cuda_device
),
ordered AS (
    SELECT
        *,
        coalesce(len(ranks) = 1 AND ranks[1] != place, false) AS is_misplaced,
        coalesce(bool_or(len(ranks) = 1 AND ranks[1] != place)
            OVER (PARTITION BY cluster, job_id, attempt), false) AS is_other_order
    FROM placed
),
-- A process with one device has it in all its communicators, also in those whose source names none.
device AS (
    SELECT cluster, job_id, attempt, node, pid, min(nvml_device) AS sole_device
    FROM statement
    WHERE nvml_device IS NOT NULL AND node IS NOT NULL AND pid IS NOT NULL
    GROUP BY ALL
    HAVING count(DISTINCT nvml_device) = 1 AND count(DISTINCT cuda_device) <= 1
),
ranked AS (
    SELECT
        * EXCLUDE (nvml_devices, sole_device),
        if(list_any_value(nvml_devices) IS NULL AND sole_device IS NOT NULL, [sole_device],
            list_filter(nvml_devices, lambda device : device IS NOT NULL)) AS devices,
        CASE
            WHEN len(ranks) = 1 THEN ranks[1]
            WHEN len(ranks) = 0 AND NOT is_other_order THEN place
        END AS rank,
        CASE
            WHEN len(ranks) = 1 THEN 'stated'
            WHEN len(ranks) = 0 AND NOT is_other_order AND place IS NOT NULL THEN 'world_communicator'
        END AS rank_source
    FROM ordered
    LEFT JOIN device USING (cluster, job_id, attempt, node, pid)
),
listed AS (
    SELECT r.cluster, r.job_id, r.attempt, r.comm_key, r.comm_rank, list(DISTINCT i.gpu_uuid) AS gpus
    FROM ranked AS r
    JOIN inventory_gpu_span AS i ON i.cluster = r.cluster AND i.node = r.node AND len(r.devices) = 1
        AND i.gpu_index = r.devices[1]
        -- Without a time only a place that never changed tells which GPU it was.
        AND (r.last_ts IS NULL OR i.start_ts <= r.last_ts)
        AND (r.first_ts IS NULL OR i.end_ts IS NULL OR i.end_ts > r.first_ts)
    GROUP BY ALL
),
seen AS (
    SELECT r.cluster, r.job_id, r.attempt, r.comm_key, r.comm_rank, list(DISTINCT g.gpu_uuid) AS gpus
    FROM ranked AS r
    JOIN gpu_place_day AS g ON g.cluster = r.cluster AND g.node = r.node AND len(r.devices) = 1
        AND g.gpu_index = r.devices[1]
        AND (r.last_ts IS NULL OR g.day_ts <= r.last_ts)
        AND (r.first_ts IS NULL OR g.day_ts + INTERVAL 1 DAY > r.first_ts)
    GROUP BY ALL
)
SELECT
    r.cluster, r.job_id, r.attempt, r.comm_key, r.comm_rank, r.comm_id, r.n_ranks, r.rank, r.rank_source,
    r.node, r.pid, r.cuda_device,
    if(len(r.devices) = 1, r.devices[1], NULL) AS nvml_device,
    r.pci_bus_id,
    CASE
        WHEN len(r.gpus) > 0 THEN if(len(r.gpus) = 1, r.gpus[1], NULL)
        WHEN len(l.gpus) = 1 THEN l.gpus[1]
        WHEN l.gpus IS NULL AND len(s.gpus) = 1 THEN s.gpus[1]
    END AS gpu_uuid,
    CASE
        WHEN len(r.gpus) = 1 THEN 'stated'
        WHEN len(r.gpus) = 0 AND len(l.gpus) = 1 THEN 'inventory'
        WHEN len(r.gpus) = 0 AND l.gpus IS NULL AND len(s.gpus) = 1 THEN 'telemetry'
    END AS gpu_source,
    r.origins,
    list_sort(list_distinct(list_concat(r.conflicts, list_filter([
        if(len(r.ranks) > 1 OR r.is_placed_twice OR r.is_misplaced
            OR (r.is_other_order AND r.rank IS NULL AND r.place IS NOT NULL), 'rank', NULL),
        if(len(r.devices) > 1, 'nvml_device', NULL),
        if(len(r.gpus) > 1 OR coalesce(len(l.gpus), 0) > 1 OR (l.gpus IS NULL AND coalesce(len(s.gpus), 0) > 1)
            OR (len(r.gpus) = 1 AND len(l.gpus) = 1 AND r.gpus[1] != l.gpus[1]), 'gpu_uuid', NULL)
    ], lambda name : name IS NOT NULL)))) AS conflicts,
    r.first_ts AS first_stated_ts,
    r.last_ts AS last_stated_ts
FROM ranked AS r
LEFT JOIN listed AS l USING (cluster, job_id, attempt, comm_key, comm_rank)
LEFT JOIN seen AS s USING (cluster, job_id, attempt, comm_key, comm_rank)
