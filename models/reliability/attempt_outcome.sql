/*
doc = """
How each attempt ended and in whose domain the cause lies. One row per attempt that ended, parts of a
heterogeneous job together, published on the day of its end; attempts that never started are kept.

failure_domain is what failure_rule says of the sign of highest precedence that the attempt shows: state and
state_reason of the record; reason class of an outage of one of its nodes, and the class (policy fleetmark) of
a root health event there, both from evidence_before_s before its end to evidence_after_s after it; or that
the kernel logs of all its nodes were seen and are silent. Evidence is sought only for states that some evidence can overrule.
Evidence of the next UTC day is not seen. A failure without a sign is unknown, never the user's.
"""
grain = ["cluster", "job_id", "attempt"]
time = "outcome_ts"
lookback = "1d"
sort = ["cluster", "outcome_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id; of a heterogeneous job the id all parts share" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
outcome_ts = { type = "TIMESTAMP", doc = "its end; of a record without an end the last time that it proves" }
start_ts = { type = "TIMESTAMP", doc = "start; NULL if it never started" }
principal = { type = "VARCHAR", doc = "user who submitted it" }
account = { type = "VARCHAR", doc = "account charged" }
partition = { type = "VARCHAR", doc = "partition" }
qos = { type = "VARCHAR", doc = "quality of service" }
state = { type = "VARCHAR", doc = "state it ended in", null = false }
failure_domain = { type = "VARCHAR", doc = "none (completed), user, timelimit, cancelled, preemption, infrastructure, hardware (of a node: part of infrastructure in the wider sense), unknown", null = false }
evidence = { type = "VARCHAR", doc = "failure_rule.evidence of the sign that decided; NULL if no rule knows any sign" }
evidence_value = { type = "VARCHAR", doc = "failure_rule.value of that sign" }
evidence_node = { type = "VARCHAR", doc = "node that showed it; of a sign of the record the node of a single-node attempt, if the domain is infrastructure or hardware" }
evidence_ts = { type = "TIMESTAMP", doc = "when that began" }
confidence = { type = "VARCHAR", doc = "low, medium or high: failure_rule.confidence" }
size_bucket = { type = "VARCHAR", doc = "GPUs held (asked for, if it never started): 0, <1, 1, 2-7, 8, 9-64, 65-512, 513-2048, >2048; unknown where no record says", null = false }
gpu_count = { type = "DOUBLE", doc = "those GPUs; below 1 for a share of one", unit = "count" }
node_count = { type = "BIGINT", doc = "nodes held; NULL if it never started", unit = "count" }
run_s = { type = "DOUBLE", doc = "start to end less suspended; 0 if it never started", unit = "s" }
gpu_s = { type = "DOUBLE", doc = "run_s x GPUs held; NULL where the GPUs are not known", unit = "s" }
has_all_attempts = { type = "BOOLEAN", doc = "job_attempt.has_all_attempts" }

[params.evidence_before_s]
default = 600
most = 86400
doc = "s; a fault on a node counts for an attempt that ends at most so much later. Meta attributes within 10 minutes before a job's end and 5 after (arXiv 2410.21680, section III)."

[params.evidence_after_s]
default = 300
most = 86400
doc = "s; and so much after its end: see evidence_before_s."
*/
WITH part AS (
    SELECT *, coalesce(end_ts, observed_ts, start_ts, attempt_ts) AS outcome_ts
    FROM job_attempt
    WHERE phase = 2
),
whole AS (
    SELECT
        cluster, job_id, attempt, outcome_ts, start_ts, principal, account, partition, qos,
        coalesce(state, 'UNKNOWN') AS state, state_reason,
        coalesce(alloc_gpus, alloc_gpu_amount, CASE WHEN start_ts IS NULL THEN coalesce(req_gpus, req_gpu_amount) END)::DOUBLE AS gpu_count,
        coalesce(alloc_nodes, len(node_list))::BIGINT AS node_count, suspended_s, node_list, has_all_attempts
    FROM part
    WHERE het_job_id IS NULL
    UNION ALL BY NAME
    SELECT
        cluster,
        het_job_id AS job_id,
        attempt,
        max(outcome_ts) AS outcome_ts,
        min(start_ts) AS start_ts,
        first(principal ORDER BY het_offset) AS principal,
        first(account ORDER BY het_offset) AS account,
        first(partition ORDER BY het_offset) AS partition,
        first(qos ORDER BY het_offset) AS qos,
        coalesce(first(state ORDER BY state = 'COMPLETED', het_offset), 'UNKNOWN') AS state,
        first(state_reason ORDER BY state = 'COMPLETED', het_offset) AS state_reason,
        -- A part whose GPUs are unknown makes the whole unknown.
        CASE WHEN count(alloc_gpus) = count(*) THEN sum(alloc_gpus) END::DOUBLE AS gpu_count,
        sum(coalesce(alloc_nodes, len(node_list)))::BIGINT AS node_count,
        max(suspended_s) AS suspended_s,
        flatten(list(node_list ORDER BY het_offset) FILTER (node_list IS NOT NULL)) AS node_list,
        bool_and(has_all_attempts) AS has_all_attempts
    FROM part
    WHERE het_job_id IS NOT NULL
    GROUP BY cluster, het_job_id, attempt
),
overruled AS (
    SELECT max(precedence) AS precedence
    FROM failure_rule
    WHERE evidence NOT IN ('state', 'state_reason')
),
node_of AS (
    SELECT cluster, job_id, attempt, outcome_ts, unnest(node_list) AS node
    FROM whole
    LEFT JOIN failure_rule AS rule ON rule.evidence = 'state' AND rule.value = state
    WHERE start_ts IS NOT NULL AND len(node_list) > 0
        AND coalesce(rule.precedence, 0) < (SELECT precedence FROM overruled)
),
sign AS (
    SELECT cluster, job_id, attempt, 'node_reason_class' AS evidence, reason_class AS value,
        node, outage.start_ts AS ts
    FROM node_of
    JOIN node_outage AS outage USING (cluster, node)
    WHERE outage.start_ts BETWEEN outcome_ts - to_seconds(getvariable('evidence_before_s'))
            AND outcome_ts + to_seconds(getvariable('evidence_after_s'))
        AND outage.start_ts < outcome_ts::DATE + INTERVAL 1 DAY
    UNION ALL BY NAME
    SELECT cluster, node_of.job_id, node_of.attempt, 'health_class' AS evidence, class AS value, node, event.start_ts AS ts
    FROM node_of
    JOIN health_event_policy AS event USING (cluster, node)
    WHERE policy = 'fleetmark' AND is_root AND class IS NOT NULL
        AND (event.job_id IS NULL OR split_part(event.job_id, '+', 1) = node_of.job_id)
        AND event.start_ts BETWEEN outcome_ts - to_seconds(getvariable('evidence_before_s'))
            AND outcome_ts + to_seconds(getvariable('evidence_after_s'))
        AND event.start_ts < outcome_ts::DATE + INTERVAL 1 DAY
    UNION ALL BY NAME
    SELECT node_of.cluster, job_id, attempt, 'logs_seen' AS evidence, 'true' AS value, NULL AS node, NULL AS ts
    FROM node_of
    LEFT JOIN node_health AS health
        ON health.cluster = node_of.cluster AND health.node = node_of.node
        AND health.day_ts = date_trunc('day', outcome_ts)
    GROUP BY node_of.cluster, job_id, attempt
    HAVING bool_and(coalesce(has_kernel_log, false))
),
of_machine AS (
    SELECT
        cluster, job_id, attempt,
        -- Of equal signs the first in time, so that the result does not hang on the order of rows.
        arg_max({'rule': rule, 'node': node, 'ts': ts}, (rule.precedence, -epoch(coalesce(ts, '1970-01-01')), value, coalesce(node, '')))
            AS found
    FROM sign
    JOIN failure_rule AS rule USING (evidence, value)
    GROUP BY cluster, job_id, attempt
),
judged AS (
    SELECT
        whole.*,
        CASE
            WHEN coalesce(found.rule.precedence, -1) > greatest(coalesce(by_state.precedence, -1), coalesce(by_reason.precedence, -1))
                THEN found.rule
            WHEN coalesce(by_reason.precedence, -1) > coalesce(by_state.precedence, -1) THEN by_reason
            ELSE by_state
        END AS rule,
        found
    FROM whole
    LEFT JOIN failure_rule AS by_state ON by_state.evidence = 'state' AND by_state.value = state
    LEFT JOIN failure_rule AS by_reason ON by_reason.evidence = 'state_reason' AND by_reason.value = state_reason
    LEFT JOIN of_machine USING (cluster, job_id, attempt)
),
timed AS (
    SELECT
        *,
        CASE WHEN start_ts IS NULL THEN 0
            ELSE greatest(0, epoch(outcome_ts - start_ts) - coalesce(suspended_s, 0)) END::DOUBLE AS run_s
    FROM judged
)
SELECT
    cluster, job_id, attempt, outcome_ts, start_ts, principal, account, partition, qos, state,
    coalesce(rule.failure_domain, 'unknown') AS failure_domain,
    rule.evidence AS evidence,
    rule.value AS evidence_value,
    CASE
        WHEN rule.evidence IN ('node_reason_class', 'health_class') THEN found.node
        WHEN rule.failure_domain IN ('infrastructure', 'hardware') AND len(node_list) = 1 THEN node_list[1]
    END AS evidence_node,
    CASE WHEN rule.evidence IN ('node_reason_class', 'health_class') THEN found.ts END AS evidence_ts,
    rule.confidence AS confidence,
    CASE
        WHEN gpu_count = 0 THEN '0'
        WHEN gpu_count < 1 THEN '<1'
        WHEN gpu_count < 2 THEN '1'
        WHEN gpu_count < 8 THEN '2-7'
        WHEN gpu_count = 8 THEN '8'
        WHEN gpu_count <= 64 THEN '9-64'
        WHEN gpu_count <= 512 THEN '65-512'
        WHEN gpu_count <= 2048 THEN '513-2048'
        WHEN gpu_count > 2048 THEN '>2048'
        ELSE 'unknown'
    END AS size_bucket,
    gpu_count,
    CASE WHEN start_ts IS NOT NULL THEN node_count END AS node_count,
    run_s,
    CASE WHEN start_ts IS NULL THEN 0 ELSE run_s * gpu_count END AS gpu_s,
    has_all_attempts
FROM timed
