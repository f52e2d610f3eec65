/*
title = "A model is read at an hour at which its reader never works"
domain = "security"
severity = "info"
attack = ["T1530", "T1029"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
lookback = "28d"
optional = ["manifest_object", "stored_object"]
flags = """
A principal reads 1 GB of checkpoints without a covering job in UTC hours in which it asked for nothing on 95 % of its
days in the last 28, a fortnight of days at least. Its weight is small and it never pages alone.
"""
why = """
A change of rhythm supports other evidence. How little it says was measured by others: on the CERT insider data variants
of counts restricted to the hours outside work were 1.02 times as informative as plain counts.
"""
looks_like = """
Travel, deadlines, on-call nights, a change of daylight saving time; anything that runs at night by design.
"""
misses = """
Thieves who work at their usual hours; principals with less than a fortnight of days, or who work around the clock; the
day of the week is not looked at.
"""
todo = """
Nothing alone.
"""

[params.min_bytes]
default = 1000000000
doc = "bytes of checkpoints read in such hours, without a covering job"

[params.most_ratio]
default = 0.05
doc = "ratio of the principal's days on which it may have asked for something in that hour"

[params.min_days]
default = 14
doc = "days of the last 28 with requests"
*/
WITH days AS (
    SELECT
        cluster, principal, day_ts,
        flatten(list(hours) OVER before) AS past_hours,
        count(*) OVER before AS day_count
    FROM principal_day
    WINDOW before AS (
        PARTITION BY cluster, principal ORDER BY day_ts
        RANGE BETWEEN INTERVAL 28 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
),

read_hours AS (
    SELECT
        o.cluster, o.principal, o.day_ts, hour(o.first_ts) AS read_hour, any_value(d.day_count) AS day_count,
        len(list_filter(any_value(d.past_hours), lambda h: h = hour(o.first_ts))) AS same_hour_count,
        sum(o.upper_bytes)::BIGINT AS upper_bytes,
        sum(o.lower_bytes)::BIGINT AS lower_bytes,
        min(o.first_ts) AS first_ts,
        max(o.first_ts) AS last_ts,
        list(DISTINCT o.checkpoint) AS checkpoints,
        list(DISTINCT o.bucket) AS buckets,
        flatten(list(o.ips)) AS ips
    FROM uncovered_object_day o
    JOIN days d USING (cluster, principal, day_ts)
    WHERE d.day_count >= getvariable('min_days')
    GROUP BY o.cluster, o.principal, o.day_ts, hour(o.first_ts)
)

SELECT
    concat_ws('|', cluster, principal, day_ts) AS subject,
    0.15 AS score,
    min(first_ts) AS start_ts,
    max(last_ts) AS end_ts,
    max(last_ts) AS detected_at,
    sum(lower_bytes)::DOUBLE AS lower,
    sum(upper_bytes)::DOUBLE AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    list_sort(list_distinct(flatten(list(checkpoints)))) AS checkpoint,
    list_sort(list_distinct(flatten(list(buckets)))) AS bucket,
    list_sort(list_distinct(flatten(list(ips)))) [1:20] AS ip,
    json_object(
        'quantity', 'bytes of objects first read in unusual hours of the UTC day, without a covering job',
        'hours', list_sort(list(read_hour)),
        'days_known', max(day_count),
        'days_with_requests_in_the_busiest_of_these_hours', max(same_hour_count)
    ) AS evidence
FROM read_hours
WHERE same_hour_count <= getvariable('most_ratio') * day_count
GROUP BY cluster, principal, day_ts
HAVING sum(upper_bytes) >= getvariable('min_bytes')
