/*
doc = "What is new for a principal: a network, client, key or checkpoint family it had not used in the 90 days before, or the principal itself; with how long it has been known, by which a new user's first fortnight is told apart."
grain = ["cluster", "principal", "trait", "value", "day_ts"]
time = "day_ts"
lookback = "90d"

[columns]
cluster = { type = "VARCHAR", doc = "principal_trait_day.cluster" }
principal = { type = "VARCHAR", doc = "principal_trait_day.principal" }
trait = { type = "VARCHAR", doc = "network, client, key, family or principal" }
value = { type = "VARCHAR", doc = "the new value" }
day_ts = { type = "TIMESTAMP", doc = "the day on which it is new" }
first_ts = { type = "TIMESTAMP", doc = "first request with it" }
known_day_count = { type = "BIGINT", doc = "days of the 90 before on which the principal asked for something", unit = "count" }
log_day_count = { type = "BIGINT", doc = "days of the 90 before of which the cluster's logs hold anything", unit = "count" }
is_learning = { type = "BOOLEAN", doc = "too little is known to call it new: fewer than learning_days of the principal, or for a new principal of the logs" }
peer_count = { type = "BIGINT", doc = "other principals with that value in the 90 days before or that day", unit = "count" }
moved_count = { type = "BIGINT", doc = "principals for which the value is new that day: three and more move together, as after a change of NAT or VPN", unit = "count" }

[params.learning_days]
default = 14
doc = "days of history under which nothing is called new; a project that skipped this measured alerts on 48 % of a clean log"
*/
WITH rows AS (
    SELECT
        *,
        lag(day_ts) OVER by_value AS previous_ts,
        lead(day_ts) OVER by_value AS next_ts
    FROM principal_trait_day
    WINDOW by_value AS (PARTITION BY cluster, principal, trait, value ORDER BY day_ts)
),

principal_days AS (
    SELECT
        cluster, principal, day_ts,
        count(*) OVER (
            PARTITION BY cluster, principal ORDER BY day_ts
            RANGE BETWEEN INTERVAL 90 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
        ) AS known_day_count
    FROM (SELECT DISTINCT cluster, principal, day_ts FROM principal_trait_day)
),

log_days AS (
    SELECT
        cluster, day_ts,
        count(*) OVER (
            PARTITION BY cluster ORDER BY day_ts
            RANGE BETWEEN INTERVAL 90 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
        ) AS log_day_count
    FROM (SELECT DISTINCT cluster, day_ts FROM principal_trait_day)
),

fresh AS (
    SELECT *, count(*) OVER (PARTITION BY cluster, trait, value, day_ts) AS moved_count
    FROM rows
    WHERE previous_ts IS NULL OR previous_ts < day_ts - INTERVAL 90 DAY
),

-- A principal counts among those with a value from each use for 90 days: one comes in, one goes, and the sum so far
-- is how many there are. Joining all who share a value would grow with the square of the principals.
comings AS (
    SELECT cluster, trait, value, day_ts, 1 AS change FROM rows
    UNION ALL
    SELECT cluster, trait, value, least(day_ts + INTERVAL 91 DAY, next_ts), -1 FROM rows
),

users AS (
    SELECT
        cluster, trait, value, day_ts,
        sum(sum(change)) OVER (PARTITION BY cluster, trait, value ORDER BY day_ts)::BIGINT AS user_count
    FROM comings
    GROUP BY cluster, trait, value, day_ts
)

SELECT
    f.cluster, f.principal, f.trait, f.value, f.day_ts, f.first_ts, d.known_day_count, l.log_day_count,
    if(f.trait = 'principal', l.log_day_count, d.known_day_count) < getvariable('learning_days') AS is_learning,
    u.user_count - 1 AS peer_count,
    f.moved_count
FROM fresh f
JOIN principal_days d USING (cluster, principal, day_ts)
JOIN log_days l USING (cluster, day_ts)
JOIN users u USING (cluster, trait, value, day_ts)
