/*
doc = """
Whether the parts of one running job are of one version: per attempt, day and component. driver and
gsp_firmware over the nodes of the allocation, vbios and inforom_image over their GPUs of one model
(models differ by right), comm_lib (NCCL and its kin) over the ranks that a flight recorder or its like
tells of.

A node's or GPU's version is its last reading by the end of the day, at most 30 days old, or the driver's own
first line in the kernel log; a rank's is that of its records of the day. Only days on which something was
read anywhere have rows. Of two equally common versions the lower counts as usual. coverage_ratio says
how many members have one: of the nodes for driver and firmware, of the GPUs known on them for vbios and
inforom, and of nothing known (NULL) for ranks. Accounting knows nodes, so on a shared node GPUs of others
count too.
"""
grain = ["cluster", "job_id", "attempt", "day_ts", "component", "gpu_model"]
time = "day_ts"
lookback = "30d"
sort = ["cluster", "day_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
component = { type = "VARCHAR", doc = "driver, gsp_firmware, vbios, inforom_image or comm_lib" }
gpu_model = { type = "VARCHAR", doc = "of vbios and inforom_image, the model compared; else empty" }
version_count = { type = "BIGINT", doc = "differing versions", unit = "count", null = false }
is_drift = { type = "BOOLEAN", doc = "more than one", null = false }
versions = { type = "VARCHAR[]", doc = "versions, the commonest first", null = false }
member_counts = { type = "BIGINT[]", doc = "members of each", unit = "count", null = false }
member_count = { type = "BIGINT", doc = "nodes, GPUs or ranks whose version is known", unit = "count", null = false }
expected_count = { type = "BIGINT", doc = "members there are; NULL: unknown", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "member_count of expected_count", unit = "ratio" }
odd_members = { type = "VARCHAR[]", doc = "members not of the commonest version: node, GPU or rank; 20 at most", null = false }
odd_nodes = { type = "VARCHAR[]", doc = "their nodes, as far as known", null = false }
odd_gpu_uuids = { type = "VARCHAR[]", doc = "their GPUs, as far as known", null = false }
known_ts = { type = "TIMESTAMP", doc = "when a second version was known while the job ran; without one, the first", null = false }
*/
WITH held AS (
    SELECT
        cluster, job_id, attempt, node,
        greatest(start_ts, day.day_ts) AS from_ts,
        day.day_ts
    FROM gpu_allocation,
        (SELECT DISTINCT date_trunc('day', ts)::TIMESTAMP AS day_ts
            FROM (SELECT ts FROM gpu_identity UNION ALL SELECT ts FROM collective
                UNION ALL SELECT ts FROM gpu_event WHERE event = 'driver_loaded')) AS day
    WHERE start_ts < day.day_ts + INTERVAL 1 DAY
        AND coalesce(end_ts, observed_ts, start_ts) >= day.day_ts
),
raw_reading AS (
    SELECT cluster, node, NULL AS gpu_uuid, '' AS gpu_model, node AS member, ts,
        unnest([{'component': 'driver', 'version': driver_version},
            {'component': 'gsp_firmware', 'version': gsp_firmware_version}], recursive := true)
    FROM gpu_identity
    UNION ALL BY NAME
    SELECT cluster, node, NULL AS gpu_uuid, '' AS gpu_model, node AS member, ts, 'driver' AS component,
        driver_version AS version
    FROM gpu_event
    WHERE event = 'driver_loaded'
    UNION ALL BY NAME
    SELECT cluster, node, gpu_uuid, coalesce(gpu_model, '') AS gpu_model, gpu_uuid AS member, ts,
        unnest([{'component': 'vbios', 'version': vbios_version},
            {'component': 'inforom_image', 'version': inforom_image_version}], recursive := true)
    FROM gpu_identity
),
reading AS (
    -- Exporters tell the same thing at every scrape.
    SELECT cluster, node, gpu_uuid, gpu_model, member, component, version, ts::DATE AS day,
        min(ts) AS first_ts, max(ts) AS ts
    FROM raw_reading
    GROUP BY ALL
),
near AS (
    SELECT
        held.cluster, job_id, attempt, day_ts, component, reading.gpu_model, member, held.node,
        reading.gpu_uuid, version, ts, greatest(first_ts, from_ts) AS known_ts
    FROM held
    JOIN reading
        ON held.cluster = reading.cluster AND held.node = reading.node
        AND day <= day_ts AND day >= day_ts - INTERVAL 30 DAY
),
last AS (
    SELECT
        cluster, job_id, attempt, day_ts, component, gpu_model, member, node, gpu_uuid,
        arg_max(version, (ts, version)) FILTER (version IS NOT NULL) AS version
    FROM near
    GROUP BY ALL
),
of_node AS (
    SELECT last.*, min(known_ts) AS known_ts
    FROM last
    JOIN near USING (cluster, job_id, attempt, day_ts, component, gpu_model, member, version)
    GROUP BY ALL
),
of_rank AS (
    SELECT
        cluster, job_id, attempt, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        'comm_lib' AS component, '' AS gpu_model, concat('rank ', rank) AS member,
        NULL::VARCHAR AS node, NULL::VARCHAR AS gpu_uuid,
        arg_max(comm_lib_version, (ts, comm_lib_version)) AS version,
        min(ts) AS known_ts
    FROM collective
    WHERE comm_lib_version IS NOT NULL AND ts IS NOT NULL AND rank IS NOT NULL
    GROUP BY ALL
),
member AS (
    SELECT * FROM of_node
    UNION ALL BY NAME
    SELECT * FROM of_rank
),
version AS (
    SELECT
        cluster, job_id, attempt, day_ts, component, gpu_model, version,
        count(*) AS member_count, min(known_ts) AS known_ts,
        row_number() OVER (
            PARTITION BY cluster, job_id, attempt, day_ts, component, gpu_model
            ORDER BY count(*) DESC, version
        ) AS place
    FROM member
    GROUP BY cluster, job_id, attempt, day_ts, component, gpu_model, version
),
odd AS (
    SELECT
        cluster, job_id, attempt, day_ts, component, gpu_model,
        list_sort(list(DISTINCT member))[:20] AS odd_members,
        list_sort(list(DISTINCT node) FILTER (node IS NOT NULL)) AS odd_nodes,
        list_sort(list(DISTINCT gpu_uuid) FILTER (gpu_uuid IS NOT NULL)) AS odd_gpu_uuids
    FROM member
    JOIN version USING (cluster, job_id, attempt, day_ts, component, gpu_model, version)
    WHERE place > 1
    GROUP BY ALL
),
expected AS (
    SELECT cluster, job_id, attempt, day_ts, component, gpu_model, count(*) AS expected_count
    FROM last
    WHERE component IN ('vbios', 'inforom_image')
    GROUP BY ALL
    UNION ALL
    SELECT cluster, job_id, attempt, day_ts, unnest(['driver', 'gsp_firmware']), '', count(DISTINCT node)
    FROM held
    GROUP BY cluster, job_id, attempt, day_ts
)
SELECT
    cluster, job_id, attempt, day_ts, component, gpu_model,
    count(*) AS version_count,
    count(*) > 1 AS is_drift,
    list(version ORDER BY place) AS versions,
    list(version.member_count ORDER BY place) AS member_counts,
    sum(version.member_count)::BIGINT AS member_count,
    any_value(expected_count) AS expected_count,
    sum(version.member_count) / any_value(expected_count) AS coverage_ratio,
    coalesce(any_value(odd_members), []) AS odd_members,
    coalesce(any_value(odd_nodes), []) AS odd_nodes,
    coalesce(any_value(odd_gpu_uuids), []) AS odd_gpu_uuids,
    list_sort(list(known_ts))[least(2, count(*))] AS known_ts
FROM version
LEFT JOIN odd USING (cluster, job_id, attempt, day_ts, component, gpu_model)
LEFT JOIN expected USING (cluster, job_id, attempt, day_ts, component, gpu_model)
GROUP BY cluster, job_id, attempt, day_ts, component, gpu_model
