/*
doc = """
What each policy of xid_policy would do about each health event, so that policies can be compared and one
of them acted on. A policy without a row for the event or for every other code says nothing: no row.

decided_by: repeat, where the event is the policy's repeat_count-th within its window; else driver, where
the driver asked for something and the policy follows it (it has rows for recovery_action); else rule or
default (the row for every other code). A repeat holds only if it asks for more than the driver does.

What makes a repeat (repeat_scope): gpu: bursts of the code on the GPU; one_gpu: the same, those left out
that were an application fault (the code on several GPUs); tpc: bursts that name the same unit (of both,
only bursts under jobs of other people count beside this one); boot:
boots, or loads of the driver, after which the code came up, so that what a reboot cures is not
counted twice for one boot; device: how often the port lost its link, at least. A burst that goes on over
midnight counts once.
"""
grain = ["event_id", "policy"]
time = "start_ts"
lookback = "30d"
sort = ["policy", "cluster", "node", "start_ts"]

[columns]
event_id = { type = "VARCHAR", doc = "health_event.event_id" }
policy = { type = "VARCHAR", doc = "xid_policy.policy" }
cluster = { type = "VARCHAR", doc = "cluster the node belongs to", null = false }
node = { type = "VARCHAR", doc = "host name", null = false }
gpu_uuid = { type = "VARCHAR", doc = "the GPU, where known" }
unit = { type = "VARCHAR", doc = "GPU, switch or port on the node", null = false }
event = { type = "VARCHAR", doc = "health_event.event", null = false }
code = { type = "INTEGER", doc = "health_event.code", null = false }
start_ts = { type = "TIMESTAMP", doc = "when it began" }
chain_id = { type = "VARCHAR", doc = "health_event.chain_id", null = false }
is_root = { type = "BOOLEAN", doc = "a cause by itself", null = false }
fault = { type = "VARCHAR", doc = "health_event.fault" }
confidence = { type = "VARCHAR", doc = "health_event.confidence", null = false }
job_id = { type = "VARCHAR", doc = "the job that alone held the node" }
class = { type = "VARCHAR", doc = "what fails, in the policy's view" }
severity = { type = "INTEGER", doc = "0 information to 4 node out of service; NULL where the policy does not say", unit = "level" }
action = { type = "VARCHAR", doc = "what the policy would do", null = false }
action_rank = { type = "INTEGER", doc = "place of that action from least (0, none) to most (7, drain_node)", unit = "level", null = false }
decided_by = { type = "VARCHAR", doc = "repeat, driver, rule or default", null = false }
repeat_count = { type = "BIGINT", doc = "how often within the policy's window, this one included; NULL where it does not count", unit = "count" }
native = { type = "VARCHAR", doc = "the policy's own word for it" }
source = { type = "VARCHAR", doc = "where that is written" }
*/
WITH ranked(action, action_rank) AS (
    VALUES ('none', 0), ('investigate', 1), ('restart_app', 2), ('reset_when_idle', 3),
        ('withdraw_gpu', 4), ('reset_gpu', 5), ('reboot_node', 6), ('drain_node', 7)
),
rule AS (
    SELECT
        xid_policy.*,
        plain.action_rank AS plain_rank,
        again.action_rank AS repeat_rank
    FROM xid_policy
    JOIN ranked AS plain USING (action)
    LEFT JOIN ranked AS again ON again.action = repeat_action
),
matched AS (
    SELECT
        health_event.event_id,
        arg_max(rule, (rule.code > 0, rule.pattern != '', length(rule.pattern), rule.pattern)) AS rule
    FROM health_event
    JOIN rule
        ON health_event.event = rule.event
        AND (rule.code = health_event.code OR rule.code = 0)
        AND (rule.pattern = '' OR regexp_matches(health_event.message, rule.pattern))
    GROUP BY health_event.event_id, rule.policy
),
started AS (
    SELECT cluster, node, ts AS boot_ts
    FROM gpu_event
    WHERE event IN ('boot', 'driver_loaded')
),
dated AS (
    SELECT
        health_event.*,
        coalesce(gpu_uuid, concat_ws('|', health_event.node, unit)) AS thing,
        coalesce(boot_ts, '1970-01-01'::TIMESTAMP) AS boot_ts
    FROM health_event
    ASOF LEFT JOIN started
        ON health_event.cluster = started.cluster AND health_event.node = started.node
        AND health_event.start_ts >= started.boot_ts
),
counted AS (
    SELECT
        matched.event_id,
        rule.policy,
        CASE rule.repeat_scope
            WHEN 'boot' THEN count(DISTINCT past.boot_ts)
            WHEN 'device' THEN sum(past.event_count_lower)
            WHEN 'tpc' THEN count(*) FILTER ((past.event_id = this.event_id OR past.principal = this.principal IS NOT true)
                AND list_has_any(past.gpu_units, this.gpu_units))
            WHEN 'one_gpu' THEN count(*) FILTER ((past.event_id = this.event_id OR past.principal = this.principal IS NOT true)
                AND past.fault IS DISTINCT FROM 'application')
            ELSE count(*)
        END::BIGINT AS repeat_count
    FROM matched
    JOIN dated AS this USING (event_id)
    JOIN dated AS past
        ON this.cluster = past.cluster AND this.thing = past.thing
        AND this.event = past.event AND this.code = past.code
        AND this.severity_text = past.severity_text
        AND NOT past.is_continuation
        AND past.start_ts <= this.start_ts
        AND past.start_ts >= this.start_ts - to_hours(rule.repeat_window_h)
    WHERE rule.repeat_scope IS NOT NULL AND (rule.repeat_scope != 'one_gpu' OR this.fault IS DISTINCT FROM 'application')
    GROUP BY matched.event_id, rule.policy, rule.repeat_scope
),
judged AS (
    SELECT
        matched.event_id,
        matched.rule,
        counted.repeat_count,
        asked AS asked,
        coalesce(counted.repeat_count >= rule.repeat_count
            AND rule.repeat_rank >= coalesce(asked.plain_rank, 0), false) AS is_repeat,
        asked.policy IS NOT NULL AS is_asked
    FROM matched
    JOIN health_event USING (event_id)
    LEFT JOIN counted ON matched.event_id = counted.event_id AND rule.policy = counted.policy
    LEFT JOIN rule AS asked
        ON asked.event = 'recovery_action' AND asked.policy = matched.rule.policy
        AND asked.code = health_event.recovery_action AND health_event.recovery_action > 0
)
SELECT
    event_id,
    rule.policy AS policy,
    cluster, node, gpu_uuid, unit, event, code, start_ts, chain_id, is_root, fault, confidence, job_id,
    rule.class AS class,
    CASE
        WHEN is_repeat THEN coalesce(rule.repeat_severity, rule.severity)
        WHEN is_asked THEN asked.severity
        ELSE rule.severity
    END AS severity,
    CASE WHEN is_repeat THEN rule.repeat_action WHEN is_asked THEN asked.action ELSE rule.action END AS action,
    CASE WHEN is_repeat THEN rule.repeat_rank WHEN is_asked THEN asked.plain_rank ELSE rule.plain_rank END
        AS action_rank,
    CASE
        WHEN is_repeat THEN 'repeat'
        WHEN is_asked OR event = 'recovery_action' THEN 'driver'
        WHEN rule.code = 0 THEN 'default'
        ELSE 'rule'
    END AS decided_by,
    repeat_count,
    CASE WHEN is_repeat THEN rule.repeat_native WHEN is_asked THEN asked.native ELSE rule.native END AS native,
    CASE WHEN is_asked AND NOT is_repeat THEN asked.source ELSE rule.source END AS source
FROM judged
JOIN health_event USING (event_id)
