/*
doc = """
What to drain now, and why: one row per node and UTC day, ranked within its cluster. Nodes are those the
inventory lists, and those that any evidence or telemetry names; days are those that any of it has.

Open at the end of the day is evidence of the last open_days days that nothing has taken care of: a reset
or a reboot (any boot or load of the driver after it) takes care of what asks for a reset or reboot, a
drain only of time. repeat offender: on lemon_days of the last 30 days or more, something asked for a reset
or more, the last time within open_days; such a node is to be drained, whatever reboots took care of.

action is the worst open action, level and place whose trouble that is: a rack or a switch comes before the
nodes of it, a chassis before its GPUs. state: act (reset_when_idle or more), watch (less), clear (nothing
open, and both the kernel log and telemetry were seen), unknown (nothing open, and one of them was not: a
node without kernel log is never clear). The kernel log counts as seen when any line of it
is known from the last log_days days, of GPUs or not (kernel_log_day); kernel_log_ts is the last such day.

rank_in_cluster: 1 is the first to drain: by state, then place of the action, then chassis and up before
single GPUs, repeat offenders, kinds of evidence, and least GPU-hours at stake.
"""
grain = ["cluster", "node", "day_ts"]
time = "day_ts"
lookback = "30d"
sort = ["cluster", "day_ts", "rank_in_cluster"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
node = { type = "VARCHAR", doc = "host name" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
rack = { type = "VARCHAR", doc = "rack, by the inventory" }
leaf_switch = { type = "VARCHAR", doc = "first switch, by the inventory" }
rank_in_cluster = { type = "BIGINT", doc = "1 is the first to act on that day", null = false }
state = { type = "VARCHAR", doc = "act, watch, clear or unknown", null = false }
action = { type = "VARCHAR", doc = "what to do: the worst open action; none where nothing is open", null = false }
action_rank = { type = "INTEGER", doc = "its place from 0 (none) to 7 (drain_node)", unit = "level", null = false }
level = { type = "VARCHAR", doc = "whose trouble it is: gpu, node, chassis, rack or leaf_switch; NULL where nothing is open" }
place = { type = "VARCHAR", doc = "the node, rack or switch of that level" }
reason = { type = "VARCHAR", doc = "the worst open fact in words" }
evidence = { type = "VARCHAR[]", doc = "all open facts in words, worst first; 20 at most", null = false }
gpu_uuids = { type = "VARCHAR[]", doc = "GPUs they name", null = false }
since_ts = { type = "TIMESTAMP", doc = "first sign of what is open" }
acted_ts = { type = "TIMESTAMP", doc = "when the worst open action was first called for" }
is_new = { type = "BOOLEAN", doc = "something open began on this day", null = false }
open_count = { type = "BIGINT", doc = "open facts", unit = "count", null = false }
fact_7d_count = { type = "BIGINT", doc = "facts that asked for a reset or more in 7 days, this one included", unit = "count", null = false }
fact_30d_count = { type = "BIGINT", doc = "the same in 30 days", unit = "count", null = false }
fact_day_30d_count = { type = "BIGINT", doc = "days with such a fact in 30 days", unit = "count", null = false }
worst_gpu_uuid = { type = "VARCHAR", doc = "GPU with most of them in 30 days" }
worst_gpu_fact_30d_count = { type = "BIGINT", doc = "how many", unit = "count" }
is_repeat_offender = { type = "BOOLEAN", doc = "on lemon_days of 30 days or more", null = false }
job_ids = { type = "VARCHAR[]", doc = "jobs that hold the node at the end of the day, or when last known", null = false }
gpu_at_stake_count = { type = "DOUBLE", doc = "GPUs they hold here; NULL: accounting does not say", unit = "count" }
gpu_h_at_stake = { type = "DOUBLE", doc = "GPU-hours they have used here since their start, lost with what was not saved if the node goes now", unit = "gpu_h" }
has_kernel_log = { type = "BOOLEAN", doc = "some line of its kernel log is known from the last log_days days", null = false }
kernel_log_ts = { type = "TIMESTAMP", doc = "day of the last line of its kernel log by then, in 30 days; NULL: none" }
coverage_ratio = { type = "DOUBLE", doc = "share of its GPUs' minutes of the day that telemetry saw; NULL: unknown what to expect", unit = "ratio" }

[params.log_days]
default = 7
most = 30
doc = "days without any line of a node's kernel log after which it no longer counts as seen. Own choice: fleets reboot or update within weeks, and a log that stopped hides every XID."

[params.open_days]
default = 7
most = 30
doc = "days that evidence stays open. NVSentinel looks back over 7 days for remediations."

[params.lemon_days]
default = 3
doc = "days of the last 30 with evidence that asked for a reset or more, which makes a repeat offender. gpud asks for an inspection at the third time a reboot did not help."

[params.min_coverage_ratio]
default = 0.25
doc = "ratio of the GPUs' minutes that telemetry must have seen for a node to be clear: a scrape every four minutes. Own choice."
*/
WITH day AS (
    SELECT DISTINCT cluster, day_ts FROM node_evidence
    UNION
    SELECT DISTINCT cluster, day_ts FROM coverage_gpu_day
    UNION
    SELECT DISTINCT cluster, date_trunc('day', ts)::TIMESTAMP FROM gpu_event
),
site AS (
    SELECT cluster, node, rack, leaf_switch, min(start_ts) AS start_ts,
        max(coalesce(end_ts, 'infinity'::TIMESTAMP)) AS end_ts
    FROM inventory_gpu_span
    GROUP BY ALL
),
-- When a node is known from: evidence and logs of the last 30 days, or telemetry of the day.
logged AS (
    SELECT cluster, node, day_ts AS log_day_ts
    FROM kernel_log_day
    UNION
    SELECT cluster, node, ts::DATE::TIMESTAMP
    FROM gpu_event
),
seen AS (
    SELECT cluster, node, day_ts,
        sum(minute_covered_count) / nullif(sum(minute_expected_count), 0) AS coverage_ratio,
        sum(minute_seen_count) > 0 AS is_seen
    FROM coverage_gpu_day
    GROUP BY ALL
),
node_day AS (
    SELECT
        cluster, node, day_ts,
        max(log_day_ts) AS kernel_log_ts,
        coalesce(max(log_day_ts) >= day_ts - to_days(getvariable('log_days')::INTEGER), false) AS has_kernel_log
    FROM (
        SELECT day.cluster, node, day_ts, log_day_ts
        FROM day
        JOIN logged
            ON day.cluster = logged.cluster AND log_day_ts BETWEEN day_ts - INTERVAL 30 DAY AND day_ts
        UNION ALL
        SELECT day.cluster, node, day_ts, NULL
        FROM day
        JOIN site ON day.cluster = site.cluster
            AND site.start_ts < day_ts + INTERVAL 1 DAY AND site.end_ts > day_ts
        UNION ALL
        SELECT cluster, node, day_ts, NULL FROM seen WHERE node IS NOT NULL
        UNION ALL
        SELECT cluster, node, day_ts, NULL FROM node_evidence
    )
    GROUP BY cluster, node, day_ts
),
started AS (
    SELECT cluster, node, ts AS started_ts
    FROM gpu_event
    WHERE event IN ('boot', 'driver_loaded')
),
past AS (
    -- Evidence of the 30 days up to each day, and whether it is open at that day's end.
    SELECT
        node_day.day_ts,
        fact.* RENAME (day_ts AS fact_day_ts),
        fact.day_ts > node_day.day_ts - INTERVAL 7 DAY AS is_week,
        fact.day_ts > node_day.day_ts - to_days(getvariable('open_days')::INTEGER)
            AND NOT (
                action_rank BETWEEN 3 AND 6
                AND EXISTS (
                    FROM started
                    WHERE started.cluster = fact.cluster AND started.node = fact.node
                        AND started_ts > fact.detected_at AND started_ts < node_day.day_ts + INTERVAL 1 DAY
                )
            ) AS is_open
    FROM node_day
    JOIN node_evidence AS fact
        ON node_day.cluster = fact.cluster AND node_day.node = fact.node
        AND fact.day_ts BETWEEN node_day.day_ts - INTERVAL 29 DAY AND node_day.day_ts
),
per_gpu AS (
    SELECT cluster, node, day_ts, gpu_uuid, count(*) AS fact_count
    FROM past
    WHERE action_rank >= 4 AND level = 'gpu' AND gpu_uuid IS NOT NULL
    GROUP BY ALL
),
worst_gpu AS (
    SELECT cluster, node, day_ts, arg_max(gpu_uuid, (fact_count, gpu_uuid)) AS gpu_uuid, max(fact_count) AS fact_count
    FROM per_gpu
    GROUP BY ALL
),
judged AS (
    SELECT
        cluster, node, day_ts,
        arg_max(past, (action_rank, level IN ('rack', 'leaf_switch'), level = 'chassis', start_ts, kind, thing))
            FILTER (is_open) AS worst,
        min(start_ts) FILTER (is_open) AS since_ts,
        list(concat_ws(' ', said, gpu_uuid) ORDER BY action_rank DESC, start_ts DESC, said, gpu_uuid) FILTER (is_open)[:20] AS evidence,
        list_sort(list(DISTINCT gpu_uuid) FILTER (is_open AND gpu_uuid IS NOT NULL)) AS gpu_uuids,
        count(DISTINCT kind) FILTER (is_open) AS kind_count,
        count(*) FILTER (is_open) AS open_count,
        coalesce(bool_or(fact_day_ts = day_ts) FILTER (is_open), false) AS is_new,
        count(*) FILTER (is_week AND action_rank >= 4) AS fact_7d_count,
        count(*) FILTER (action_rank >= 4) AS fact_30d_count,
        count(DISTINCT fact_day_ts) FILTER (action_rank >= 4) AS fact_day_30d_count,
        max(detected_at) FILTER (action_rank >= 4) AS asked_ts,
        arg_max(said, (detected_at, said)) FILTER (action_rank >= 4) AS asked_said
    FROM past
    GROUP BY ALL
),
called AS (
    SELECT past.cluster, past.node, past.day_ts, min(detected_at) AS acted_ts
    FROM past
    JOIN judged USING (cluster, node, day_ts)
    WHERE is_open AND action_rank = worst.action_rank
    GROUP BY ALL
),
stake AS (
    SELECT
        node_day.cluster, node_day.node, day_ts,
        list_sort(list(DISTINCT job_id)) AS job_ids,
        sum(gpu_count) AS gpu_at_stake_count,
        sum(gpu_count * epoch(least(coalesce(end_ts, observed_ts), day_ts + INTERVAL 1 DAY) - start_ts)) / 3600
            AS gpu_h_at_stake
    FROM node_day
    JOIN gpu_allocation AS held
        ON node_day.cluster = held.cluster AND node_day.node = held.node
        AND held.start_ts < day_ts + INTERVAL 1 DAY
        AND (held.end_ts >= day_ts + INTERVAL 1 DAY OR (held.end_ts IS NULL AND held.observed_ts >= day_ts))
    GROUP BY ALL
),
decided AS (
    SELECT
        node_day.*, judged.* EXCLUDE (cluster, node, day_ts, worst), worst,
        acted_ts,
        coalesce(
            fact_day_30d_count >= getvariable('lemon_days')
            AND asked_ts >= day_ts - to_days(getvariable('open_days')::INTEGER - 1), false
        ) AS is_lemon
    FROM node_day
    LEFT JOIN judged USING (cluster, node, day_ts)
    LEFT JOIN called USING (cluster, node, day_ts)
),
stated AS (
    SELECT
        decided.*,
        seen.coverage_ratio,
        coalesce(job_ids, []) AS jobs, gpu_at_stake_count, gpu_h_at_stake,
        CASE WHEN is_lemon THEN 7 ELSE coalesce(worst.action_rank, 0) END AS final_rank,
        CASE
            WHEN is_lemon OR worst.action_rank >= 3 THEN 'act'
            WHEN worst IS NOT NULL THEN 'watch'
            WHEN has_kernel_log AND is_seen AND coalesce(coverage_ratio >= getvariable('min_coverage_ratio'), true)
                THEN 'clear'
            ELSE 'unknown'
        END AS state
    FROM decided
    LEFT JOIN seen USING (cluster, node, day_ts)
    LEFT JOIN stake USING (cluster, node, day_ts)
)
SELECT
    cluster, node, day_ts,
    (
        SELECT first(rack ORDER BY site.start_ts DESC, rack) FROM site
        WHERE site.cluster = stated.cluster AND site.node = stated.node
    ) AS rack,
    (
        SELECT first(leaf_switch ORDER BY site.start_ts DESC, leaf_switch) FROM site
        WHERE site.cluster = stated.cluster AND site.node = stated.node
    ) AS leaf_switch,
    row_number() OVER (
        PARTITION BY cluster, day_ts
        ORDER BY
            array_position(['act', 'watch', 'unknown', 'clear'], state), final_rank DESC,
            coalesce(worst.level IN ('chassis', 'rack', 'leaf_switch'), false) DESC,
            is_lemon DESC, coalesce(kind_count, 0) DESC, coalesce(fact_7d_count, 0) DESC,
            coalesce(gpu_h_at_stake, 0), node
    ) AS rank_in_cluster,
    state,
    CASE WHEN is_lemon THEN 'drain_node' ELSE coalesce(worst.action, 'none') END AS action,
    final_rank AS action_rank,
    if(is_lemon AND coalesce(worst.action_rank, 0) < 7, 'node', worst.level) AS level,
    if(is_lemon AND coalesce(worst.action_rank, 0) < 7, node, worst.place) AS place,
    if(
        is_lemon AND coalesce(worst.action_rank, 0) < 7,
        format('asked for a reset or more on {} of 30 days, last: {}', fact_day_30d_count, asked_said),
        worst.said
    ) AS reason,
    coalesce(evidence, []) AS evidence,
    coalesce(gpu_uuids, []) AS gpu_uuids,
    since_ts,
    if(is_lemon AND coalesce(worst.action_rank, 0) < 7, asked_ts, acted_ts) AS acted_ts,
    coalesce(is_new, false) AS is_new,
    coalesce(open_count, 0) AS open_count,
    coalesce(fact_7d_count, 0) AS fact_7d_count,
    coalesce(fact_30d_count, 0) AS fact_30d_count,
    coalesce(fact_day_30d_count, 0) AS fact_day_30d_count,
    worst_gpu.gpu_uuid AS worst_gpu_uuid,
    worst_gpu.fact_count AS worst_gpu_fact_30d_count,
    is_lemon AS is_repeat_offender,
    jobs AS job_ids,
    gpu_at_stake_count, gpu_h_at_stake,
    has_kernel_log, kernel_log_ts, coverage_ratio
FROM stated
LEFT JOIN worst_gpu USING (cluster, node, day_ts)
