/*
doc = """
What speaks against a node, day by day: health events whose policy asks for something, and the day's facts
of degradation, each with the least action that takes care of it. One row per fact.

An event counts by the worst action of its chain (cause and consequences); a fault of programs is none. A
fact that a whole chassis, rack or switch shares in the same hour (common_cause) has that level and place.
Slowed GPUs and flapping ports then ask for no more than a look at the place; but a chassis that was slowed
for most of ten minutes is to be drained, unless its rack shares it. Errors of GPUs keep their action.

Actions of facts: drain_node for a failed row remap, unrepairable memory, SRAM errors over the replacement
threshold, lost NVLinks, a flapping port, a PCIe link that is narrow or slow for pcie_degraded_ts;
reset_gpu for new uncorrected errors, reset_when_idle for a pending remap; investigate for banks without
spare rows and for sustained heat, power brake or unexplained slowdown of single GPUs.
"""
grain = ["cluster", "node", "day_ts", "kind", "thing", "start_ts"]
time = "day_ts"
sort = ["cluster", "node", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
node = { type = "VARCHAR", doc = "the node; where telemetry names another host for the GPU, the inventory's" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
kind = { type = "VARCHAR", doc = "health_event, row_remap_failed, memory_unrepairable, sram_threshold, ecc_uncorrected, row_remap_pending, bank_without_spares, pcie_degraded, nvlink_lost, throttled, port_flapping" }
thing = { type = "VARCHAR", doc = "what of the node: GPU, port, or chain of events" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU, where it is one" }
start_ts = { type = "TIMESTAMP", doc = "first sign of it that day" }
detected_at = { type = "TIMESTAMP", doc = "when it was enough to count", null = false }
level = { type = "VARCHAR", doc = "gpu, node, chassis, rack or leaf_switch: whose trouble it is", null = false }
place = { type = "VARCHAR", doc = "the node, rack or switch of that level; NULL at level gpu" }
class = { type = "VARCHAR", doc = "memory, pcie, fabric, nic, power, ... : xid_policy.class" }
action = { type = "VARCHAR", doc = "the least that takes care of it: xid_policy.action", null = false }
action_rank = { type = "INTEGER", doc = "its place from 0 (none) to 7 (drain_node)", unit = "level", null = false }
confidence = { type = "VARCHAR", doc = "high or low", null = false }
said = { type = "VARCHAR", doc = "the fact in words", null = false }

[params.policy]
default = "fleetmark"
doc = "the policy whose actions count: a name in xid_policy"
*/
WITH ranked(action, action_rank) AS (
    VALUES ('investigate', 1), ('reset_when_idle', 3), ('reset_gpu', 5), ('drain_node', 7)
),
site AS (
    SELECT cluster, gpu_uuid, node, start_ts AS since_ts, coalesce(end_ts, 'infinity'::TIMESTAMP) AS until_ts
    FROM inventory_gpu_span
),
chain AS (
    SELECT
        cluster, node, date_trunc('day', min(start_ts))::TIMESTAMP AS day_ts,
        chain_id AS thing,
        arg_max(gpu_uuid, (is_root, gpu_uuid)) AS gpu_uuid,
        min(start_ts) AS start_ts,
        arg_min(if(event = 'link_down', 'link_down', 'gpu_errors'), (NOT is_root, start_ts, event_id)) AS cause,
        arg_max(class, (is_root, action_rank, event_id)) AS class,
        arg_max(action, (action_rank, event_id)) AS action,
        max(action_rank) AS action_rank,
        arg_max(confidence, (action_rank, event_id)) AS confidence,
        concat_ws(', ', arg_min(concat(event, ' ', code), (NOT is_root, start_ts, event_id)),
            arg_max(native, (action_rank, event_id)),
            if(count(*) > 1, concat(count(*), ' events in the chain'), NULL)) AS said
    FROM health_event_policy
    WHERE policy = getvariable('policy') AND action_rank > 0
        AND (fault IS NULL OR fault = 'hardware_suspected')
    GROUP BY cluster, node, chain_id, start_ts::DATE
),
memory AS (
    SELECT
        cluster, node, day_ts, gpu_uuid, 'memory' AS class,
        unnest([
            {'kind': 'row_remap_failed', 'is_so': row_remap_failed = 1, 'found_ts': row_remap_failed_ts,
             'action': 'drain_node', 'said': 'a row could not be remapped'},
            {'kind': 'memory_unrepairable', 'is_so': memory_unrepairable = 1, 'found_ts': memory_unrepairable_ts,
             'action': 'drain_node', 'said': 'memory can no longer be repaired'},
            {'kind': 'sram_threshold', 'is_so': sram_threshold_exceeded = 1, 'found_ts': sram_threshold_exceeded_ts,
             'action': 'drain_node', 'said': 'uncorrected SRAM errors passed the replacement threshold'},
            {'kind': 'ecc_uncorrected', 'is_so': ecc_dbe_new_count > 0, 'found_ts': ecc_dbe_first_ts,
             'action': 'reset_gpu', 'said': concat(ecc_dbe_new_count, ' new uncorrected ECC errors')},
            {'kind': 'row_remap_pending', 'is_so': row_remap_pending = 1, 'found_ts': row_remap_pending_start_ts,
             'action': 'reset_when_idle', 'said': 'a row remap waits for a reset'},
            {'kind': 'bank_without_spares', 'is_so': row_remap_bank_none_count > 0, 'found_ts': row_remap_bank_none_ts,
             'action': 'investigate', 'said': concat(row_remap_bank_none_count, ' banks without spare rows')}
        ], recursive := true)
    FROM gpu_memory_health_day
),
link AS (
    SELECT
        cluster, node, day_ts, gpu_uuid,
        unnest([
            {'class': 'pcie', 'kind': 'pcie_degraded', 'is_so': pcie_degraded_ts IS NOT NULL, 'found_ts': pcie_degraded_ts,
             'action': 'drain_node', 'said': concat_ws(' ', 'PCIe at', pcie_width_lanes, 'of',
                pcie_width_expected_lanes, 'lanes, generation', pcie_gen_busy, 'of', pcie_gen_expected)},
            {'class': 'fabric', 'kind': 'nvlink_lost', 'is_so': nvlink_lost_ts IS NOT NULL
                AND nvlink_up_last_count < nvlink_expected_count, 'found_ts': nvlink_lost_ts,
             'action': 'drain_node', 'said': concat(nvlink_up_last_count, ' of ', nvlink_expected_count,
                ' NVLinks up')}
        ], recursive := true)
    FROM gpu_link_day
),
throttled AS (
    SELECT
        cluster, node, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts, gpu_uuid, hour_ts,
        CASE cause WHEN 'hw_power_brake' THEN 'power' WHEN 'thermal' THEN 'thermal' ELSE 'hardware' END AS class,
        if(cause = 'hw_power_brake', 'power_brake', cause) AS cause,
        'throttled' AS kind, first_throttled_ts AS start_ts, sustained_ts AS found_ts, 'investigate' AS action,
        concat(cause, ' for ', round(throttled_s)::BIGINT, ' s') AS said
    FROM gpu_throttle_hour
    WHERE is_fault AND sustained_ts IS NOT NULL AND cause NOT IN ('sw_thermal', 'hw_thermal')
),
port AS (
    SELECT
        cluster, node, day_ts, device, 'port_flapping' AS kind, flapping_ts AS found_ts,
        'nic' AS class, 'drain_node' AS action, 'link_down' AS cause,
        concat('link lost ', down_count, ' times') AS said
    FROM nic_link_day
    WHERE flapping_ts IS NOT NULL
),
fact AS (
    SELECT cluster, node, day_ts, 'health_event' AS kind, thing, gpu_uuid, start_ts, start_ts AS found_ts, cause,
        class, action, action_rank, confidence, said
    FROM chain
    -- A port that goes down is judged by how it flaps, below.
    WHERE cause != 'link_down'
    UNION ALL BY NAME
    SELECT fact.cluster, if(day_ts < site.until_ts, site.node, fact.node) AS node, day_ts, kind, fact.gpu_uuid AS thing,
        fact.gpu_uuid, coalesce(fact.start_ts, fact.found_ts, day_ts) AS start_ts,
        coalesce(fact.found_ts, day_ts) AS found_ts, cause, class, action, action_rank,
        'high' AS confidence, said
    FROM (
        SELECT cluster, node, day_ts, gpu_uuid, kind, NULL::TIMESTAMP AS start_ts, found_ts, NULL AS cause, class, action, said
        FROM memory WHERE is_so
        UNION ALL BY NAME
        SELECT cluster, node, day_ts, gpu_uuid, kind, found_ts, class, action, said FROM link WHERE is_so
        UNION ALL BY NAME
        SELECT * EXCLUDE (hour_ts) FROM throttled
    ) AS fact
    JOIN ranked USING (action)
    -- Where the GPU stood by then: on the day of a move there are two places.
    ASOF LEFT JOIN site
        ON fact.cluster = site.cluster AND fact.gpu_uuid = site.gpu_uuid
        AND coalesce(fact.found_ts, day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) >= site.since_ts
    UNION ALL BY NAME
    SELECT cluster, node, day_ts, kind, device AS thing, found_ts AS start_ts, found_ts, cause, class, action, action_rank,
        'high' AS confidence, said
    FROM port
    JOIN ranked USING (action)
),
shared AS (
    -- The widest place that shares the fact.
    SELECT
        fact.cluster, fact.node, fact.day_ts, fact.kind, fact.thing, fact.start_ts,
        arg_max(common_cause, (common_cause.level != 'chassis', common_cause.start_ts, common_cause.place)) AS shared_by
    FROM fact
    JOIN (SELECT *, unnest(nodes) AS node FROM common_cause) AS common_cause
        ON fact.cluster = common_cause.cluster AND fact.node = common_cause.node
        AND fact.cause = common_cause.cause
        AND fact.start_ts <= common_cause.end_ts AND fact.found_ts >= common_cause.start_ts
    GROUP BY ALL
)
SELECT DISTINCT ON (cluster, node, day_ts, kind, thing, start_ts)
    cluster, node, day_ts, kind, thing, gpu_uuid, start_ts,
    found_ts AS detected_at,
    coalesce(shared_by.level, if(gpu_uuid IS NULL, 'node', 'gpu')) AS level,
    coalesce(shared_by.place, if(gpu_uuid IS NULL, node, NULL)) AS place,
    class,
    CASE
        WHEN kind = 'health_event' THEN action
        WHEN shared_by.level = 'chassis' AND shared_by.is_sustained THEN 'drain_node'
        WHEN shared_by.level IS NOT NULL THEN 'investigate'
        ELSE action
    END AS action,
    CASE
        WHEN kind = 'health_event' THEN action_rank
        WHEN shared_by.level = 'chassis' AND shared_by.is_sustained THEN 7
        WHEN shared_by.level IS NOT NULL THEN 1
        ELSE action_rank
    END AS action_rank,
    confidence, said
FROM fact
LEFT JOIN shared USING (cluster, node, day_ts, kind, thing, start_ts)
ORDER BY cluster, node, day_ts, kind, thing, start_ts, action_rank DESC, found_ts, said
