/*
doc = """
Times a node was out of service (down, draining, failing): records of node_event that follow each other
without a gap are one outage, whatever changed in state or reason meanwhile.

reason_class is the most telling class (reason_rule, kind node) of all its reasons: an operator who finds the bad GPU writes so after
the scheduler wrote that the node does not respond. Planned is what reason_rule calls so. A
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
reason_class = { type = "VARCHAR", doc = "reason_rule.class; operator where somebody wrote a reason that no rule knows, unknown where there is none" }
is_planned = { type = "BOOLEAN", doc = "reason_rule.is_planned of that class" }
principal = { type = "VARCHAR", doc = "who wrote that reason" }
gpu_count = { type = "BIGINT", doc = "node_known.gpu_count", unit = "count" }
gpu_count_source = { type = "VARCHAR", doc = "node_known.gpu_count_source" }
*/
WITH class_rule AS (
    SELECT rank AS class_rank, class AS reason_class, pattern, is_planned FROM reason_rule WHERE kind = 'node'
),
-- After every rule: written by somebody, then nothing known.
last_rank AS (
    SELECT coalesce(max(class_rank), 0) + 1 AS operator_rank, operator_rank + 1 AS unknown_rank FROM class_rule
),
reason_seen AS (
    SELECT
        reason,
        coalesce(min(class_rank), if(lower(reason) IN ('', 'none', 'unknown'), any_value(unknown_rank), any_value(operator_rank)))
            AS class_rank
    FROM (SELECT DISTINCT reason FROM node_event WHERE reason IS NOT NULL)
    CROSS JOIN last_rank
    LEFT JOIN class_rule ON regexp_matches(lower(reason), pattern)
    GROUP BY reason
),
classified AS (
    SELECT event.*, coalesce(class_rank, unknown_rank) AS class_rank
    FROM node_event AS event
    CROSS JOIN last_rank
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
    coalesce(ranked.reason_class, if(class_rank = operator_rank, 'operator', 'unknown')) AS reason_class,
    coalesce(ranked.is_planned, false) AS is_planned,
    principal,
    gpu_count,
    gpu_count_source
FROM outage
CROSS JOIN last_rank
LEFT JOIN (
    SELECT class_rank, any_value(reason_class) AS reason_class, bool_and(is_planned) AS is_planned
    FROM class_rule
    GROUP BY class_rank
) AS ranked USING (class_rank)
LEFT JOIN node_known USING (cluster, node)
