/*
doc = """
What kernel log, network, library and scheduler say about the node of each incident while it lasted: one
row per incident and kind of evidence, also where it says nothing (is_found false) or where nothing was
recorded (is_known false). A kernel log that never said anything about a node is taken for one that
nobody collects.
"""
grain = ["incident_id", "evidence_kind"]
time = "day_ts"
lookback = "1d"
sort = ["incident_id"]

[columns]
incident_id = { type = "VARCHAR", doc = "incident.incident_id" }
day_ts = { type = "TIMESTAMP", doc = "incident.day_ts" }
evidence_kind = { type = "VARCHAR", doc = "gpu_event, network, transport, shared_node, whole_node" }
cause = { type = "VARCHAR", doc = "what it points to, in the words of finding.kind: gpu_health_event, dead_gpu (for hangs), slow_nic, transport_fallback, shared_node, node_sick; NULL unless found" }
is_own_gpu = { type = "BOOLEAN", doc = "it names the very GPU, not only the node; NULL unless found" }
is_known = { type = "BOOLEAN", doc = "there were records of this kind for this node", null = false }
is_found = { type = "BOOLEAN", doc = "they show something", null = false }
explained_ratio = { type = "DOUBLE", doc = "1 for a fact without size; NULL unless found", unit = "ratio" }
figures = { type = "VARCHAR", doc = "JSON object: what it rests on; NULL where not known" }

[params.policy]
default = "fleetmark"
doc = "xid_policy.policy by whose class and severity events count."
[params.min_severity]
default = 1
doc = "level of that policy from which an event of hardware, driver, firmware or fabric counts: a note. Faults of the application and consequences of others never do."
[params.before_s]
default = 3600
doc = "s before the incident in which an event can be its cause. A GPU is often bad for minutes before it stands still. Own choice."
[params.min_slow_ranks]
default = 2
doc = "count; so many ranks of the node slow, at least half of those on it, and fewer than half of the job's others, make it the node's fault."
*/
WITH suspect AS (
    SELECT *, start_ts - to_seconds(getvariable('before_s')) AS from_ts
    FROM incident
    WHERE is_timed AND node IS NOT NULL
),

logged AS (
    SELECT DISTINCT cluster, node, true AS is_logged FROM gpu_event
),

event AS (
    SELECT
        i.incident_id, h.code, h.event, h.start_ts, p.class, p.severity,
        coalesce(h.gpu_uuid = i.gpu_uuid, false) AS is_own,
        h.event = 'link_down' AS is_network
    FROM suspect AS i
    JOIN health_event AS h
        ON i.cluster = h.cluster AND i.node = h.node
        AND h.start_ts <= i.end_ts AND h.end_ts >= i.from_ts
    JOIN health_event_policy AS p
        ON h.event_id = p.event_id AND p.policy = getvariable('policy')
    WHERE coalesce(p.severity, 1) >= getvariable('min_severity')
        AND coalesce(p.class, '') NOT IN ('application', 'consequence')
        AND coalesce(h.fault, '') NOT LIKE 'application%'
        -- Another GPU's fault is not this one's.
        AND (h.gpu_uuid IS NULL OR i.gpu_uuid IS NULL OR h.gpu_uuid = i.gpu_uuid)
),

gpu_fault AS (
    SELECT
        incident_id, 'gpu_event' AS evidence_kind,
        bool_or(is_own) AS is_own_gpu,
        to_json(list(
            {'event': event, 'code': code, 'class': class, 'severity': severity, 'ts': start_ts}
            ORDER BY severity DESC, start_ts, code
        )[:5])::VARCHAR AS figures
    FROM event
    WHERE NOT is_network
    GROUP BY ALL
),

-- A slow NIC that group testing names is a cause of other slowness, not of itself.
network_sign AS (
    SELECT incident_id, event AS sign, start_ts::VARCHAR AS what, false AS is_own
    FROM event
    WHERE is_network
    UNION ALL
    SELECT
        i.incident_id, 'slow ' || l.element_kind, l.element,
        coalesce(l.gpu_uuid = i.gpu_uuid, false)
    FROM suspect AS i
    JOIN link_suspect AS l
        ON i.cluster = l.cluster AND i.day_ts = l.day_ts AND list_contains(l.node, i.node)
        AND l.verdict = 'culprit'
    WHERE i.kind <> 'slow_link'
        AND (i.gpu_uuid IS NULL OR l.gpu_uuid IS NULL OR i.gpu_uuid = l.gpu_uuid)
),

network AS (
    SELECT
        incident_id, 'network' AS evidence_kind,
        bool_or(is_own) AS is_own_gpu,
        to_json(list({'sign': sign, 'what': what} ORDER BY sign, what)[:5])::VARCHAR AS figures
    FROM network_sign
    GROUP BY ALL
),

transport AS (
    SELECT
        incident_id, 'transport' AS evidence_kind,
        bool_or(fact IN ('link_speed_drop', 'device_failed')) AS is_nic,
        to_json(list(
            {'fact': fact, 'device': device, 'transport': transport, 'usual': usual}
            ORDER BY fact, device
        )[:5])::VARCHAR AS figures
    FROM suspect AS i
    JOIN transport_fact AS f
        ON i.cluster = f.cluster AND i.node = f.node AND i.job_id = f.job_id AND f.is_fallback
        AND (f.ts IS NULL OR f.ts BETWEEN i.from_ts AND i.end_ts)
    GROUP BY ALL
),

shared AS (
    SELECT
        incident_id, 'shared_node' AS evidence_kind,
        bool_or(a.job_id = i.job_id) AS is_known,
        count(*) FILTER (a.job_id <> i.job_id) > 0 AS is_found,
        to_json(list(DISTINCT a.job_id ORDER BY a.job_id)[:10])::VARCHAR AS figures
    FROM suspect AS i
    JOIN gpu_allocation AS a
        ON i.cluster = a.cluster AND i.node = a.node
        AND a.start_ts <= i.end_ts
        AND coalesce(a.end_ts, a.observed_ts, a.start_ts) > i.start_ts
    GROUP BY ALL
),

-- Ranks of one job on one node that are slow together have their host in common.
slow_rank AS (
    SELECT
        i.incident_id,
        count(*) FILTER (s.node = i.node) AS node_ranks,
        count(*) FILTER (s.node = i.node AND s.verdict = 'slow') AS node_slow,
        count(*) FILTER (s.node <> i.node) AS other_ranks,
        count(*) FILTER (s.node <> i.node AND s.verdict = 'slow') AS other_slow
    FROM suspect AS i
    JOIN step_straggler AS s USING (cluster, job_id, attempt, day_ts)
    WHERE i.kind = 'straggler' AND s.verdict IN ('slow', 'not_slow')
    GROUP BY ALL
),

whole AS (
    SELECT
        incident_id, 'whole_node' AS evidence_kind,
        node_slow >= getvariable('min_slow_ranks') AND 2 * node_slow >= node_ranks
            AND 2 * other_slow < other_ranks AS is_found,
        json_object(
            'node_rank_count', node_ranks, 'node_slow_count', node_slow,
            'other_rank_count', other_ranks, 'other_slow_count', other_slow
        )::VARCHAR AS figures
    FROM slow_rank
    WHERE node_ranks > 1 AND other_ranks > 0
),

traced AS (
    SELECT DISTINCT cluster, job_id, node, true AS is_traced
    FROM nccl_log_event
    WHERE event IN ('channel', 'network', 'link_speed_change', 'device_failed')
),

said AS (
    SELECT incident_id, evidence_kind, is_own_gpu, true AS is_found, NULL AS is_known, false AS is_nic,
        figures
    FROM gpu_fault
    UNION ALL
    SELECT incident_id, evidence_kind, is_own_gpu, true, NULL, true, figures FROM network
    UNION ALL
    SELECT incident_id, evidence_kind, false, true, true, is_nic, figures FROM transport
    UNION ALL
    SELECT incident_id, evidence_kind, false, is_found, is_known, false, figures FROM shared
    UNION ALL
    SELECT incident_id, evidence_kind, false, is_found, true, false, figures FROM whole
),

asked AS (
    SELECT *,
        unnest(['gpu_event', 'network', 'transport', 'shared_node', 'whole_node']) AS evidence_kind
    FROM incident
),

answered AS (
    SELECT
        q.*, is_own_gpu, is_nic, figures,
        coalesce(is_found, false) AS found,
        coalesce(is_known, found) OR (q.evidence_kind IN ('gpu_event', 'network') AND is_timed AND coalesce(is_logged, false))
            OR (q.evidence_kind = 'transport' AND coalesce(is_traced, false)) AS known
    FROM asked AS q
    LEFT JOIN said USING (incident_id, evidence_kind)
    LEFT JOIN logged USING (cluster, node)
    LEFT JOIN traced USING (cluster, job_id, node)
)

SELECT
    incident_id, day_ts, evidence_kind,
    CASE
        WHEN NOT found THEN NULL
        WHEN evidence_kind = 'gpu_event' THEN if(kind = 'hang', 'dead_gpu', 'gpu_health_event')
        WHEN evidence_kind = 'network' OR is_nic THEN 'slow_nic'
        WHEN evidence_kind = 'transport' THEN 'transport_fallback'
        WHEN evidence_kind = 'whole_node' THEN 'node_sick'
        ELSE evidence_kind
    END AS cause,
    if(found, is_own_gpu, NULL) AS is_own_gpu,
    known AS is_known,
    found AND known AS is_found,
    if(found AND known, 1.0::DOUBLE, NULL) AS explained_ratio,
    if(known, coalesce(figures, '{}'), NULL) AS figures
FROM answered
