/*
title = "A log has gone quiet, or says that it lost records"
domain = "security"
severity = "medium"
attack = ["T1562.008"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "8d"
one_of = ["storage_access", "storage_event", "net_flow"]
optional = ["log_gap"]
flags = """
A log of storage, its management or the network brings nothing over hours in which it should have brought 14
principals (records, where it names none) or more, by the smallest count of the same hour on five or more of the 7
days before (a Poisson chance below one in a million); high over a day. Also records that a log itself says it lost,
or numbers missing from its sequence (medium).
"""
why = """
No line is no proof. Silence is the cheapest way to hide, and the commonest fault: both must be known before anybody
trusts a quiet night.
"""
looks_like = """
A store that nobody uses at weekends for the first time; a shipper that is late: the finding goes when the records
come.
"""
misses = """
A log that thins out instead of stopping; a silence of every log of the cluster at once (no clock goes on); sources
with fewer than 14 records in the gap, or less than five days of history.
"""
todo = """
See whether the store served requests in that span (another log, its metrics). Until it is known, treat the span as
unseen.
"""

[params.min_missed]
default = 14
doc = "records missed: exp(-14) is a chance below one in a million that a Poisson count is nought"

[params.min_days]
default = 5
doc = "days of the 7 before of which the same hour is known"
*/
WITH clock AS (SELECT cluster, max(hour_ts) AS last_hour FROM log_coverage_hour WHERE record_count > 0 GROUP BY ALL),

seen AS (
    SELECT
        cluster, source, hour_ts,
        sum(record_count) AS record_count,
        -- One job makes many records at once; who asks comes independently, as a Poisson count supposes.
        coalesce(max(principal_count), sum(record_count)) AS arrival_count,
        sum(gap_count) AS gap_count,
        sum(missing_count) AS missing_count
    FROM log_coverage_hour
    GROUP BY ALL
),

spans AS (
    SELECT s.cluster, s.source, unnest(generate_series(min(s.hour_ts), any_value(c.last_hour), INTERVAL 1 HOUR)) AS hour_ts
    FROM seen s
    JOIN clock c USING (cluster)
    GROUP BY s.cluster, s.source
),

hours AS (
    SELECT
        p.cluster, p.source, p.hour_ts, coalesce(s.record_count, 0) AS record_count,
        coalesce(s.arrival_count, 0) AS arrival_count
    FROM spans p
    LEFT JOIN seen s USING (cluster, source, hour_ts)
),

expected AS (
    SELECT
        *,
        min(arrival_count) OVER same_hour AS usual_count,
        count(*) OVER same_hour AS known_day_count
    FROM hours
    WINDOW same_hour AS (
        PARTITION BY cluster, source, hour(hour_ts) ORDER BY hour_ts
        RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
),

silent AS (
    SELECT
        *,
        hour_ts - to_hours(row_number() OVER (PARTITION BY cluster, source ORDER BY hour_ts)::INTEGER) AS run
    FROM expected
    WHERE record_count = 0
),

running AS (
    SELECT
        *,
        sum(if(known_day_count >= getvariable('min_days'), usual_count, 0)) OVER so_far AS missed,
        count(*) OVER so_far AS hour_count,
        min(hour_ts) OVER so_far AS start_ts
    FROM silent
    WINDOW so_far AS (PARTITION BY cluster, source, run ORDER BY hour_ts)
),

-- A finding a day while it lasts, two days long; from then on the gap is what is usual.
quiet AS (
    SELECT
        cluster, source, start_ts,
        date_trunc('day', hour_ts) AS day_ts,
        min(hour_ts) + INTERVAL 3599 SECOND AS detected_at,
        max(hour_ts) + INTERVAL 1 HOUR AS end_ts,
        max(missed) AS missed,
        max(hour_count) AS hour_count
    FROM running
    WHERE missed >= getvariable('min_missed') AND hour_count <= 48
    GROUP BY ALL
),

lost AS (
    SELECT
        cluster, source, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        min(hour_ts) AS start_ts,
        max(hour_ts) + INTERVAL 1 HOUR AS end_ts,
        coalesce(sum(gap_count), 0) AS gap_count,
        coalesce(sum(missing_count), 0) AS missing_count
    FROM seen
    WHERE gap_count > 0 OR missing_count > 0
    GROUP BY ALL
)

SELECT
    concat_ws('|', cluster, source, 'quiet', start_ts, day_ts) AS subject,
    0.6 AS score,
    if(hour_count >= 24, 'high', 'medium') AS severity,
    start_ts, end_ts, detected_at,
    NULL::DOUBLE AS lower,
    missed::DOUBLE AS upper,
    [cluster] AS cluster,
    json_object(
        'quantity', 'principals (records, where the log names none) that should have come, by the smallest count of the same hours', 'log', source,
        'hours', hour_count
    ) AS evidence
FROM quiet
UNION ALL
SELECT
    concat_ws('|', cluster, source, 'lost', day_ts),
    0.4, 'medium', start_ts, end_ts, end_ts - INTERVAL 1 SECOND,
    (gap_count + missing_count)::DOUBLE, NULL,
    [cluster],
    json_object(
        'quantity', 'losses the log tells of, and numbers missing', 'log', source, 'losses_told', gap_count,
        'numbers_missing', missing_count
    )
FROM lost
