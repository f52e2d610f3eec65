/*
doc = """
What went wrong with GPUs, switches and ports: bursts of the kernel log (gpu_event_burst), and, where no
kernel line tells of it, changes of the sticky gauges (gpu_code_change).

source gauge: confidence is low, event_count_lower is 1 and the upper bound unknown; it happened between
after_ts and start_ts. A change of a gauge with a kernel line of the same code and GPU (or node, where
the address is not placed) near it is that line's event and gives no row.

chain_id groups cause and effect: an event follows the latest one that can cause it, at most
chain_window_s before, on the same GPU (XID 45 and NVSwitch faults: the same node). What causes what:
13, 31, 32, 8, 69 lead to 43; 48 and 92 to 63 and 64; 48, 63 and 64 to 94 and 95; 48 to 171 and 172 (its
details); 79 to everything on that GPU; 119 to 120, 109 and 43; a fatal SXid to 74 and 144 to 155; any
XID to 45 and 154; AMD's RAS errors beyond correction to resets. is_root: nothing known caused it; XID 45
and 154 never are. (NVIDIA's XID catalogue; open-gpu-kernel-modules' nverror.h; the order in real logs.)

fault says what XID 8, 13, 31, 43 and 69, which programs cause most often, mean here: application, if the
same code came up on another GPU of the node or job within 24 hours (before, or later the same UTC day);
hardware_suspected, if the same unit (GPC and TPC) of one GPU was named twice within 24 hours (13), or one
GPU alone has it twice (31) (NVSentinel's rules), and not by jobs of one and the same person, who may well
run a faulty program twice; else application_likely. NULL for all others: the class
in health_event_policy says what they concern. The pid is a victim, no culprit.

Jobs: accounting knows nodes, not which of their GPUs, so an event belongs to the job that held the node
when it began (or ended within the minute before), if there was one alone; several are all listed.
"""
grain = ["event_id"]
time = "start_ts"
lookback = "1d"
sort = ["cluster", "node", "start_ts"]

[columns]
event_id = { type = "VARCHAR", doc = "hash of cluster, node, event, code, unit and start" }
cluster = { type = "VARCHAR", doc = "cluster the node belongs to", null = false }
node = { type = "VARCHAR", doc = "host name; of gauges the inventory's where it lists the GPU", null = false }
gpu_uuid = { type = "VARCHAR", doc = "the GPU; NULL where its address is not placed, or several are concerned" }
pci_bus_id = { type = "VARCHAR", doc = "PCI address; NULL where several or not said" }
unit = { type = "VARCHAR", doc = "what tells apart things on a node: PCI address, port, or the GPU's UUID", null = false }
event = { type = "VARCHAR", doc = "xid, sxid, link_down, pcie_limited, ras_error, gpu_reset, gpu_reset_failed or recovery_action", null = false }
code = { type = "INTEGER", doc = "xid or sxid code, or the recovery action; 0 for events without", null = false }
severity_text = { type = "VARCHAR", doc = "gpu_event_burst.severity_text", null = false }
start_ts = { type = "TIMESTAMP", doc = "when it began; of a gauge the sample that shows it" }
end_ts = { type = "TIMESTAMP", doc = "last sign of it", null = false }
after_ts = { type = "TIMESTAMP", doc = "gauge: it happened after this" }
is_continuation = { type = "BOOLEAN", doc = "a burst that began the day before", null = false }
source = { type = "VARCHAR", doc = "kernel_log or gauge", null = false }
confidence = { type = "VARCHAR", doc = "high (kernel_log) or low (gauge)", null = false }
event_count_lower = { type = "BIGINT", doc = "it happened at least so often", unit = "count", null = false }
event_count_upper = { type = "BIGINT", doc = "at most so often; NULL: unknown", unit = "count" }
gpu_count = { type = "BIGINT", doc = "GPUs concerned, as far as lines or samples name them", unit = "count", null = false }
chain_id = { type = "VARCHAR", doc = "event_id of what caused it in the end; its own for a root", null = false }
cause_id = { type = "VARCHAR", doc = "event_id of what directly caused it; NULL: not known" }
is_root = { type = "BOOLEAN", doc = "a cause by itself, as far as known", null = false }
fault = { type = "VARCHAR", doc = "application, application_likely or hardware_suspected; NULL: not a code that programs cause" }
recovery_action = { type = "INTEGER", doc = "what the driver asked for from this event to chain_window_s after it, coded as gpu_sample.recovery_action; NULL: nothing known", unit = "code" }
job_ids = { type = "VARCHAR[]", doc = "jobs that held the node", null = false }
job_id = { type = "VARCHAR", doc = "the job, where one alone held the node" }
attempt = { type = "BIGINT", doc = "that job's attempt", unit = "s" }
principal = { type = "VARCHAR", doc = "who submitted it" }
pids = { type = "BIGINT[]", doc = "victims: processes the lines name", null = false }
processes = { type = "VARCHAR[]", doc = "their names", null = false }
gpu_units = { type = "VARCHAR[]", doc = "units of the GPU the lines name", null = false }
message = { type = "VARCHAR", doc = "the first line's message; of gauges what changed", null = false }
coverage_ratio = { type = "DOUBLE", doc = "share of the times it happened of which a line or sample tells: event_count_lower of event_count_upper. Below 1 where the kernel held lines back; NULL: how often it happened is not known (gauge)", unit = "ratio" }

[params.chain_window_s]
default = 120
most = 3600
doc = "s; an effect follows its cause within this. Effects in real logs come within seconds; clean-up of many channels takes longer. Own choice."

[params.merge_window_s]
default = 120
most = 3600
doc = "s; a gauge's change belongs to a kernel line this much outside the time between its two samples: DCGM collects every 30 s, a scrape adds up to 15 s, and clocks differ."
*/
WITH gauge AS (
    SELECT
        change.cluster, coalesce(listed.node, change.node) AS node, change.gpu_uuid, ts, after_ts, code,
        if(signal = 'xid_code', 'xid', 'recovery_action') AS event,
        format('{} changed from {} to {}', signal, coalesce(code_before::VARCHAR, 'none'), code) AS message
    FROM gpu_code_change AS change
    LEFT JOIN inventory_gpu_span AS listed
        ON change.cluster = listed.cluster AND change.gpu_uuid = listed.gpu_uuid
        AND ts >= listed.start_ts AND ts < coalesce(listed.end_ts, 'infinity'::TIMESTAMP)
),
placed AS (
    -- The last GPU known to sit at the address by then, else the first one known later.
    SELECT
        burst.*,
        coalesce(
            arg_max(gpu_uuid, first_ts) FILTER (first_ts <= end_ts + INTERVAL 1 DAY),
            arg_min(gpu_uuid, first_ts)
        ) AS gpu_uuid
    FROM gpu_event_burst AS burst
    LEFT JOIN gpu_place USING (cluster, node, pci_bus_id)
    GROUP BY ALL
),
untold AS (
    -- Changes of gauges that no kernel line tells of.
    SELECT *
    FROM gauge
    WHERE code > 0
        AND NOT EXISTS (
            FROM placed
            WHERE placed.cluster = gauge.cluster
                AND placed.event = 'xid'
                AND if(gauge.event = 'xid', placed.code = gauge.code, placed.recovery_action = gauge.code)
                AND (placed.gpu_uuid = gauge.gpu_uuid OR (placed.gpu_uuid IS NULL AND placed.node = gauge.node))
                AND placed.end_ts >= gauge.after_ts - to_seconds(getvariable('merge_window_s'))
                AND placed.start_ts <= gauge.ts + to_seconds(getvariable('merge_window_s'))
                -- A line of the next day is not there yet when a day is computed.
                AND placed.start_ts < gauge.ts::DATE + INTERVAL 1 DAY
        )
),
one AS (
    SELECT
        cluster, node, gpu_uuid, pci_bus_id, unit, event, code, severity_text, start_ts, end_ts,
        NULL::TIMESTAMP AS after_ts, is_continuation, 'kernel_log' AS source, 'high' AS confidence,
        event_count_lower, event_count_upper, gpu_count, recovery_action,
        pids, processes, gpu_units, message
    FROM placed
    UNION ALL BY NAME
    SELECT
        cluster,
        node,
        if(code = 45 AND event = 'xid', NULL, gpu_uuid) AS gpu_uuid,
        coalesce(if(code = 45 AND event = 'xid', NULL, gpu_uuid), '') AS unit,
        event, code, '' AS severity_text,
        min(ts) AS start_ts, max(ts) AS end_ts, min(after_ts) AS after_ts,
        false AS is_continuation, 'gauge' AS source, 'low' AS confidence,
        1 AS event_count_lower, count(DISTINCT gpu_uuid) AS gpu_count,
        if(event = 'recovery_action', code, NULL) AS recovery_action,
        []::BIGINT[] AS pids, []::VARCHAR[] AS processes, []::VARCHAR[] AS gpu_units,
        min(message) AS message
    FROM untold
    -- One GPU's codes by the sample; XID 45 by node and minute, as in the kernel log.
    GROUP BY cluster, node, 3, 4, event, code,
        if(code = 45 AND event = 'xid', date_trunc('minute', ts)::TIMESTAMP, ts)
),
identified AS (
    SELECT
        left(sha256(concat_ws('|', cluster, node, event, code, unit, severity_text, source, start_ts)), 20)
            AS event_id,
        *
    FROM one
),
held AS (
    SELECT
        event_id, job_id, attempt, principal,
        identified.start_ts <= coalesce(held.end_ts, held.observed_ts) AS is_covering
    FROM identified
    JOIN gpu_allocation AS held
        ON identified.cluster = held.cluster AND identified.node = held.node
        AND held.start_ts <= coalesce(after_ts, identified.start_ts)
        AND coalesce(held.end_ts, held.observed_ts, held.start_ts) + INTERVAL 1 MINUTE >= identified.start_ts
    -- Jobs that just ended count only where none held the node.
    QUALIFY is_covering OR NOT coalesce(bool_or(is_covering) OVER (PARTITION BY event_id), false)
),
holder AS (
    SELECT
        event_id,
        list_sort(list(DISTINCT job_id)) AS job_ids,
        if(count(DISTINCT job_id) = 1, max((attempt, principal)), NULL) AS alone
    FROM held
    GROUP BY event_id
),
attributed AS (
    SELECT
        identified.*,
        coalesce(job_ids, []) AS job_ids,
        if(alone IS NOT NULL, job_ids[1], NULL) AS job_id,
        alone[1] AS attempt,
        alone[2] AS principal
    FROM identified
    LEFT JOIN holder USING (event_id)
),
-- What can cause what on one GPU, as XIDs.
leads_to(cause_code, effect_code) AS (
    VALUES (8, 43), (13, 43), (31, 43), (32, 43), (69, 43), (119, 43), (119, 109), (119, 120),
        (48, 63), (48, 64), (48, 94), (48, 95), (48, 171), (48, 172), (92, 63), (92, 64),
        (63, 94), (63, 95), (64, 94), (64, 95)
),
brief AS (
    SELECT event_id, cluster, node, job_id, event, code, coalesce(gpu_uuid, unit) AS thing, severity_text,
        start_ts, end_ts
    FROM attributed
),
pair AS (
    SELECT effect, cause
    FROM brief AS effect
    JOIN brief AS cause
        ON effect.cluster = cause.cluster AND effect.node = cause.node
        AND cause.start_ts <= effect.start_ts + INTERVAL 1 SECOND
        AND cause.end_ts >= effect.start_ts - to_seconds(getvariable('chain_window_s'))
    WHERE cause.event IN ('xid', 'sxid', 'ras_error') AND NOT (cause.event = 'xid' AND cause.code IN (45, 154))
    UNION ALL
    -- The clean-up of a job reaches its other nodes.
    SELECT effect, cause
    FROM brief AS effect
    JOIN brief AS cause
        ON effect.cluster = cause.cluster AND effect.job_id = cause.job_id
        AND cause.start_ts <= effect.start_ts + INTERVAL 1 SECOND
        AND cause.end_ts >= effect.start_ts - to_seconds(getvariable('chain_window_s'))
    WHERE effect.event = 'xid' AND effect.code = 45 AND effect.node != cause.node
        AND cause.event IN ('xid', 'sxid') AND NOT (cause.event = 'xid' AND cause.code IN (45, 154))
),
caused AS (
    SELECT
        effect.event_id, arg_max(cause.event_id, (cause.node = effect.node, cause.start_ts, cause.code, cause.event_id)) AS cause_id
    FROM pair
    LEFT JOIN leads_to ON cause_code = pair.cause.code AND effect_code = pair.effect.code
    WHERE effect.event_id != cause.event_id
        AND cause.start_ts < effect.start_ts::DATE + INTERVAL 1 DAY
        AND CASE
            WHEN effect.event = 'recovery_action' THEN cause.event = 'xid' AND cause.thing = effect.thing
            WHEN effect.event LIKE 'gpu_reset%'
                THEN cause.event = 'ras_error' AND cause.severity_text != 'correctable' AND cause.thing = effect.thing
            WHEN effect.event != 'xid' OR cause.event = 'ras_error' THEN false
            WHEN cause.event = 'sxid'
                THEN cause.severity_text = 'fatal'
                    AND (effect.code IN (45, 74) OR effect.code BETWEEN 144 AND 155)
            -- Nothing makes a GPU fall off the bus but itself.
            WHEN cause.code = effect.code OR effect.code = 79 THEN false
            WHEN effect.code = 45 THEN true
            ELSE cause.thing = effect.thing
                AND (effect.code = 154 OR cause.code = 79 OR cause_code IS NOT NULL)
        END
    GROUP BY ALL
),
climbed AS (
    -- Chains are five long at most: 79, 48, 63, 94, 154.
    SELECT c1.event_id, c1.cause_id, coalesce(c4.cause_id, c3.cause_id, c2.cause_id, c1.cause_id) AS chain_id
    FROM caused AS c1
    LEFT JOIN caused AS c2 ON c1.cause_id = c2.event_id
    LEFT JOIN caused AS c3 ON c2.cause_id = c3.event_id
    LEFT JOIN caused AS c4 ON c3.cause_id = c4.event_id
),
suspect AS (
    SELECT event_id, cluster, node, job_id, principal, code, unit, gpu_units, start_ts,
        least(start_ts::DATE + INTERVAL 1 DAY, start_ts + INTERVAL 1 DAY) AS until_ts
    FROM attributed
    WHERE event = 'xid' AND code IN (8, 13, 31, 43, 69)
),
repeated AS (
    -- The same code elsewhere on the node or in the job, and again on the same GPU or unit of it.
    SELECT event_id, bool_or(is_elsewhere) AS is_elsewhere, bool_or(is_again) AS is_again,
        bool_or(is_same_unit) AS is_same_unit
    FROM (
        SELECT
            this.event_id, other.unit != this.unit AS is_elsewhere,
            other.unit = this.unit AND other.principal = this.principal IS NOT true AS is_again,
            is_again AND list_has_any(other.gpu_units, this.gpu_units) AS is_same_unit
        FROM suspect AS this
        JOIN suspect AS other
            ON this.cluster = other.cluster AND this.node = other.node AND this.code = other.code
            AND this.event_id != other.event_id
            AND other.start_ts >= this.start_ts - INTERVAL 1 DAY AND other.start_ts < this.until_ts
        UNION ALL
        SELECT DISTINCT this.event_id, true, false, false
        FROM suspect AS this
        JOIN suspect AS other
            ON this.cluster = other.cluster AND this.job_id = other.job_id AND this.code = other.code
            AND this.node != other.node
            AND other.start_ts >= this.start_ts - INTERVAL 1 DAY AND other.start_ts < this.until_ts
    )
    GROUP BY event_id
),
asked AS (
    SELECT
        event.event_id,
        arg_max(answer.recovery_action, (answer.start_ts, answer.event_id)) AS recovery_action
    FROM identified AS event
    JOIN identified AS answer
        ON event.cluster = answer.cluster AND event.node = answer.node
        AND (event.unit = answer.unit OR event.gpu_uuid = answer.gpu_uuid)
        AND answer.recovery_action IS NOT NULL
        AND answer.start_ts >= event.start_ts - INTERVAL 1 SECOND
        AND answer.start_ts <= event.end_ts + to_seconds(getvariable('chain_window_s'))
        AND answer.start_ts::DATE = event.start_ts::DATE
    WHERE event.event = 'xid' AND event.code != 45
    GROUP BY ALL
)
SELECT
    event_id, cluster, node, gpu_uuid, pci_bus_id, unit, event, code, severity_text,
    start_ts, end_ts, after_ts, is_continuation, source, confidence,
    event_count_lower, event_count_upper, gpu_count,
    coalesce(chain_id, event_id) AS chain_id,
    cause_id,
    cause_id IS NULL AND NOT (event = 'xid' AND code IN (45, 154)) AND event != 'recovery_action' AS is_root,
    CASE
        WHEN event != 'xid' OR code NOT IN (8, 13, 31, 43, 69) THEN NULL
        WHEN is_elsewhere THEN 'application'
        WHEN (code = 13 AND is_same_unit) OR (code = 31 AND is_again) THEN 'hardware_suspected'
        ELSE 'application_likely'
    END AS fault,
    coalesce(attributed.recovery_action, asked.recovery_action) AS recovery_action,
    job_ids, job_id, attempt, principal, pids, processes, gpu_units, message,
    event_count_lower / event_count_upper AS coverage_ratio
FROM attributed
LEFT JOIN climbed USING (event_id)
LEFT JOIN repeated USING (event_id)
LEFT JOIN asked USING (event_id)
