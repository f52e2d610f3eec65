/*
title = "Somebody is restless"
domain = "performance"
kind = "restless"
severity = "low"
reviewed = "2026-11-30"
flags = "More passages in a day than the limit."
why = "It shows that a rule is one file."
looks_like = "A guard on duty."
misses = "Passages through windows."
todo = "Offer a chair."

[params.max_passages]
default = 3
doc = "count a day; chosen for the example"
*/
SELECT
    cluster || '/' || person || '/' || day_ts AS subject,
    1.0 AS score,
    day_ts AS start_ts,
    day_ts + INTERVAL 1 DAY AS end_ts,
    day_ts AS detected_at,
    [cluster] AS cluster,
    [person] AS principal,
    passage_count::DOUBLE AS lower,
    passage_count::DOUBLE AS upper,
    json_object('passages', passage_count) AS evidence
FROM passage_day
WHERE passage_count > getvariable('max_passages')
