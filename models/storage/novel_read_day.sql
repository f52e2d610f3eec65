/*
doc = "What is new for a principal on a day on which it read checkpoints without a covering job, with what it read: of a new model family what was read of that family, of anything else all of it."
grain = ["cluster", "principal", "trait", "value", "day_ts"]
time = "day_ts"
lookback = "0d"

[columns]
cluster = { type = "VARCHAR", doc = "principal_novelty_day.cluster" }
principal = { type = "VARCHAR", doc = "principal_novelty_day.principal" }
trait = { type = "VARCHAR", doc = "network, client, key, family or principal" }
value = { type = "VARCHAR", doc = "the new value" }
day_ts = { type = "TIMESTAMP", doc = "the day on which it is new" }
first_ts = { type = "TIMESTAMP", doc = "first request with it" }
known_day_count = { type = "BIGINT", doc = "as in principal_novelty_day", unit = "count" }
is_learning = { type = "BOOLEAN", doc = "as in principal_novelty_day" }
peer_count = { type = "BIGINT", doc = "as in principal_novelty_day", unit = "count" }
moved_count = { type = "BIGINT", doc = "as in principal_novelty_day", unit = "count" }
uncovered_bytes = { type = "BIGINT", doc = "read without a covering job, at most: sum of uncovered_object_day.upper_bytes", unit = "bytes" }
read_start_ts = { type = "TIMESTAMP", doc = "first of these reads" }
read_end_ts = { type = "TIMESTAMP", doc = "last of these reads" }
checkpoints = { type = "VARCHAR[]", doc = "checkpoints read" }
buckets = { type = "VARCHAR[]", doc = "buckets read from" }
ips = { type = "VARCHAR[]", doc = "addresses they were read from, at most 20" }
*/
WITH read_outside AS (
    SELECT
        cluster, principal, day_ts, family,
        grouping(family) = 1 AS is_of_all_families,
        sum(upper_bytes)::BIGINT AS uncovered_bytes,
        min(first_ts) AS read_start_ts,
        max(last_ts) AS read_end_ts,
        list_sort(list(DISTINCT checkpoint)) AS checkpoints,
        list_sort(list(DISTINCT bucket)) AS buckets,
        list_sort(list_distinct(flatten(list(ips)))) [1:20] AS ips
    FROM uncovered_object_day
    GROUP BY GROUPING SETS ((cluster, principal, day_ts), (cluster, principal, day_ts, family))
)

SELECT
    n.cluster, n.principal, n.trait, n.value, n.day_ts, n.first_ts, n.known_day_count,
    n.is_learning, n.peer_count, n.moved_count, r.uncovered_bytes, r.read_start_ts, r.read_end_ts,
    r.checkpoints, r.buckets, r.ips
FROM principal_novelty_day n
JOIN read_outside r
    ON n.cluster = r.cluster AND n.principal = r.principal AND n.day_ts = r.day_ts
    AND if(n.trait = 'family', NOT r.is_of_all_families AND r.family = n.value, r.is_of_all_families)
