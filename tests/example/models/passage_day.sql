/*
doc = "Passages per person and day."
grain = ["cluster", "person", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "site" }
person = { type = "VARCHAR", doc = "who" }
day_ts = { type = "TIMESTAMP", doc = "start of the day" }
passage_count = { type = "BIGINT", doc = "passages", unit = "count" }
*/
SELECT cluster, person, date_trunc('day', ts)::TIMESTAMP AS day_ts, count(*) AS passage_count
FROM passage
GROUP BY ALL
