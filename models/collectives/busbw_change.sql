/*
doc = """
Bus bandwidth per day of the same nodes doing the same thing, against their own 14 days before and
against other nodes doing it that day. Own history shows that something changed, the others show whether
it changed for them alone.
"""
grain = ["cluster", "day_ts", "node_set", "function", "size_bytes", "n_ranks", "timing_source"]
time = "day_ts"
lookback = "14d"
sort = ["node_set", "function", "size_bytes"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
node_set = { type = "VARCHAR", doc = "the nodes, sorted, joined by commas; of more than 8 the first, their number and a hash" }
function = { type = "VARCHAR", doc = "comm_perf_day.function" }
size_bytes = { type = "BIGINT", doc = "message as recorded", unit = "bytes" }
n_ranks = { type = "INTEGER", doc = "ranks that take part", unit = "count" }
timing_source = { type = "VARCHAR", doc = "collective_perf.timing_source" }
nodes = { type = "VARCHAR[]", doc = "the nodes" }
job_id = { type = "VARCHAR[]", doc = "jobs of the day" }
op_count = { type = "BIGINT", doc = "operations of the day", unit = "count" }
busbw_bytes_per_s = { type = "DOUBLE", doc = "median over the day's communicators of these nodes", unit = "bytes/s" }
algorithm = { type = "VARCHAR[]", doc = "algorithms and protocols in use that day: a change of them changes bandwidth too" }
usual_algorithm = { type = "VARCHAR[]", doc = "those of the days before" }
history_day_count = { type = "BIGINT", doc = "days with such operations in the 14 before", unit = "count" }
usual_busbw_bytes_per_s = { type = "DOUBLE", doc = "median of these days", unit = "bytes/s" }
spread_ratio = { type = "DOUBLE", doc = "1.4826 times the median absolute deviation of these days over their median, at least min_spread_ratio", unit = "ratio" }
ratio = { type = "DOUBLE", doc = "busbw over usual_busbw", unit = "ratio" }
peer_count = { type = "BIGINT", doc = "other node sets with the same function, size, ranks, number of nodes and timing that day and before", unit = "count" }
peer_ratio = { type = "DOUBLE", doc = "median of the ratios of all of that shape, this one included: 1 where nothing changed for most", unit = "ratio" }
first_ts = { type = "TIMESTAMP", doc = "first dump of the day" }
last_ts = { type = "TIMESTAMP", doc = "last dump of the day" }
verdict = { type = "VARCHAR", doc = "regressed (these nodes alone), regressed_everywhere (peers fell as well: a change of software, of the fabric, or of load), regressed_alone_unknown (too few peers to say), steady, not_evaluable (too short a history)" }

[params.max_ratio]
default = 0.90
doc = "ratio to own history; materiality first. NVIDIA's fleet validation accepts a tolerance of 10 % of its expected bandwidth (aicr issue 2784)."
[params.min_history_days]
default = 3
doc = "count; fewer days have no median worth the name."
[params.min_spreads]
default = 3
doc = "count; how many spreads the day must lie below its history, beside max_ratio."
[params.min_spread_ratio]
default = 0.01
doc = "ratio; floor of the spread. Without it a tight healthy series alarms: on four public step-time series |z| > 3.5 fires 54 times in 782 samples."
[params.min_peers]
default = 3
doc = "count; fewer other node sets say nothing about everybody."
*/
WITH daily AS (
    SELECT
        cluster, day_ts, function, size_bytes, n_ranks, timing_source, nodes, n_nodes,
        if(
            len(nodes) <= 8,
            array_to_string(nodes, ','),
            concat_ws(',', nodes[1], len(nodes), md5(array_to_string(nodes, ',')))
        ) AS node_set,
        list_sort(list(DISTINCT job_id)) AS job_id,
        sum(op_count)::BIGINT AS op_count,
        median(busbw_bytes_per_s) AS busbw,
        list_sort(list(DISTINCT concat_ws('/', algorithm, protocol))) AS algorithm,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts
    FROM comm_perf_day
    WHERE n_nodes IS NOT NULL AND len(nodes) = n_nodes
    GROUP BY ALL
),

with_history AS (
    SELECT
        *,
        count(*) OVER before AS history_day_count,
        median(busbw) OVER before AS usual,
        mad(busbw) OVER before AS deviation,
        list_sort(list_distinct(flatten(list(algorithm) OVER before))) AS usual_algorithm
    FROM daily
    WINDOW before AS (
        PARTITION BY cluster, node_set, function, size_bytes, n_ranks, timing_source
        ORDER BY day_ts
        RANGE BETWEEN INTERVAL 14 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
),

measured AS (
    SELECT
        *,
        if(history_day_count >= getvariable('min_history_days'), busbw / usual, NULL) AS ratio,
        greatest(1.4826 * deviation / usual, getvariable('min_spread_ratio')) AS spread_ratio
    FROM with_history
),

compared AS (
    SELECT
        *,
        count(ratio) OVER same_shape - (ratio IS NOT NULL)::INTEGER AS peer_count,
        median(ratio) OVER same_shape AS peer_ratio,
        ratio < getvariable('max_ratio')
            AND ratio < 1 - getvariable('min_spreads') * spread_ratio AS is_low
    FROM measured
    WINDOW same_shape AS (
        PARTITION BY cluster, day_ts, function, size_bytes, n_ranks, n_nodes, timing_source
    )
)

SELECT
    cluster, day_ts, node_set, function, size_bytes, n_ranks, timing_source, nodes, job_id,
    op_count, busbw AS busbw_bytes_per_s, algorithm,
    if(history_day_count > 0, usual_algorithm, []) AS usual_algorithm,
    history_day_count,
    usual AS usual_busbw_bytes_per_s,
    if(history_day_count > 0, spread_ratio, NULL) AS spread_ratio,
    ratio, peer_count, peer_ratio, first_ts, last_ts,
    CASE
        WHEN ratio IS NULL THEN 'not_evaluable'
        WHEN NOT is_low THEN 'steady'
        WHEN peer_count < getvariable('min_peers') THEN 'regressed_alone_unknown'
        WHEN ratio < getvariable('max_ratio') * peer_ratio THEN 'regressed'
        ELSE 'regressed_everywhere'
    END AS verdict
FROM compared
