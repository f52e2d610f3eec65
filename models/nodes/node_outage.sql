/*
doc = """
Times a node was out of service (down, draining, failing): records of node_event that follow each other
without a gap are one outage, whatever changed in state or reason meanwhile.

reason_class is the most telling class of all its reasons: an operator who finds the bad GPU writes so after
the scheduler wrote that the node does not respond. Planned are outages of class planned_maintenance only. A
node that drains still runs its last jobs: it is out of service because it takes no new ones.
"""
grain = ["cluster", "node", "start_ts"]
time = "start_ts"
end = "end_ts"
observed = "observed_ts"
sort = ["cluster", "start_ts", "node"]
# One outage may last months, and its records lie apart.
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the node" }
node = { type = "VARCHAR", doc = "node name" }
start_ts = { type = "TIMESTAMP", doc = "from when it took no jobs" }
end_ts = { type = "TIMESTAMP", doc = "until when; NULL while it lasts" }
observed_ts = { type = "TIMESTAMP", doc = "an open outage is known to last until then" }
duration_s = { type = "DOUBLE", doc = "length; of an open one up to observed_ts", unit = "s" }
record_count = { type = "BIGINT", doc = "records of node_event it is made of", unit = "count" }
reason = { type = "VARCHAR", doc = "the reason that gave the class, as written; NULL if none was" }
reason_class = { type = "VARCHAR", doc = "gpu_fell_off_bus, ecc, gpu_xid, nvlink_ib, disk_fs, prolog_epilog, kill_task_failed, planned_maintenance, reboot, not_responding, operator or unknown" }
is_planned = { type = "BOOLEAN", doc = "class planned_maintenance" }
principal = { type = "VARCHAR", doc = "who wrote that reason" }
gpu_count = { type = "BIGINT", doc = "node_known.gpu_count", unit = "count" }
gpu_count_source = { type = "VARCHAR", doc = "node_known.gpu_count_source" }
*/
WITH class_rule(class_rank, reason_class, pattern) AS (
    VALUES
        (1, 'gpu_fell_off_bus', 'fall(en)? off the bus|fell off|xid:? ?79|gpu (is )?(lost|missing|not found)|no (nvidia )?devices'),
        (2, 'ecc', '\becc\b|row.?remap|uncorrectable|dbe\b|retired page'),
        (3, 'gpu_xid', '\bxid|gpu.?(error|fail|hang|health|fault)|bad gpu|dcgm|nvidia-smi'),
        (4, 'nvlink_ib', 'nvlink|nvswitch|infiniband|\bib\b|\bhca\b|fabric|link (down|flap)'),
        (5, 'disk_fs', 'disk|nvme|filesystem|file system|mount|\bnfs\b|lustre|gpfs|read.?only'),
        (6, 'planned_maintenance', 'maint|upgrade|firmware|scheduled|planned|patch|reservation'),
        (7, 'prolog_epilog', 'prolog|epilog|health.?check|\bnhc\b'),
        (8, 'kill_task_failed', 'kill task failed'),
        (9, 'reboot', 'reboot|rebooted|unexpectedly|power'),
        (10, 'not_responding', 'not responding|no response|node down|low socket|unreachable')
),
reason_seen AS (
    SELECT
        reason,
        coalesce(
            min(class_rank) FILTER (regexp_matches(lower(reason), pattern)),
            CASE WHEN lower(reason) IN ('', 'none', 'unknown') THEN 12 ELSE 11 END
        ) AS class_rank
    FROM (SELECT DISTINCT reason FROM node_event WHERE reason IS NOT NULL)
    CROSS JOIN class_rule
    GROUP BY reason
),
classified AS (
    SELECT event.*, coalesce(class_rank, 12) AS class_rank
    FROM node_event AS event
    LEFT JOIN reason_seen USING (reason)
),
marked AS (
    SELECT
        *,
        coalesce(start_ts > max(coalesce(end_ts, 'infinity'::TIMESTAMP)) OVER before, true) AS is_new
    FROM classified
    WINDOW before AS (
        PARTITION BY cluster, node ORDER BY start_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
numbered AS (
    SELECT *, sum(is_new::INTEGER) OVER (PARTITION BY cluster, node ORDER BY start_ts) AS number
    FROM marked
),
outage AS (
    SELECT
        cluster,
        node,
        min(start_ts) AS start_ts,
        CASE WHEN count(end_ts) = count(*) THEN max(end_ts) END AS end_ts,
        max(coalesce(observed_ts, end_ts, start_ts)) AS observed_ts,
        count(*) AS record_count,
        min(class_rank) AS class_rank,
        arg_min(reason, (class_rank, start_ts)) AS reason,
        arg_min(principal, (class_rank, start_ts)) FILTER (principal IS NOT NULL) AS principal
    FROM numbered
    GROUP BY cluster, node, number
)
SELECT
    cluster,
    node,
    start_ts,
    end_ts,
    observed_ts,
    epoch(coalesce(end_ts, observed_ts) - start_ts)::DOUBLE AS duration_s,
    record_count,
    reason,
    coalesce(
        class_rule.reason_class,
        CASE WHEN class_rank = 11 THEN 'operator' ELSE 'unknown' END
    ) AS reason_class,
    coalesce(class_rule.reason_class = 'planned_maintenance', false) AS is_planned,
    principal,
    gpu_count,
    gpu_count_source
FROM outage
LEFT JOIN class_rule USING (class_rank)
LEFT JOIN node_known USING (cluster, node)
