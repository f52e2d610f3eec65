/*
doc = "Ends of attempts, by UTC day of the end, size, state and failure domain: the numerators of failure rates and shares."
grain = ["cluster", "day_ts", "size_bucket", "state", "failure_domain"]
time = "day_ts"
# Few rows a day: a year is read from twelve files, not from 365.
period = "month"
sort = ["cluster", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the jobs" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day of the end" }
size_bucket = { type = "VARCHAR", doc = "attempt_outcome.size_bucket" }
state = { type = "VARCHAR", doc = "attempt_outcome.state" }
failure_domain = { type = "VARCHAR", doc = "attempt_outcome.failure_domain" }
attempt_count = { type = "BIGINT", doc = "attempts that ended so, those that never started included", unit = "count" }
started_count = { type = "BIGINT", doc = "of them those that had started", unit = "count" }
low_confidence_count = { type = "BIGINT", doc = "of them those whose domain rests on a sign of low confidence", unit = "count" }
run_s = { type = "DOUBLE", doc = "their whole run time, also that before the day", unit = "s" }
gpu_s = { type = "DOUBLE", doc = "the same times GPUs held, over attempts whose GPUs are known", unit = "s" }
gpu_known_count = { type = "BIGINT", doc = "attempts whose GPUs are known", unit = "count" }
has_all_attempts = { type = "BOOLEAN", doc = "false if some records were collected without earlier attempts, NULL if nobody said" }
*/
SELECT
    cluster,
    date_trunc('day', outcome_ts)::TIMESTAMP AS day_ts,
    size_bucket,
    state,
    failure_domain,
    count(*) AS attempt_count,
    count(start_ts) AS started_count,
    count(*) FILTER (confidence = 'low') AS low_confidence_count,
    sum(run_s) AS run_s,
    sum(gpu_s) AS gpu_s,
    count(gpu_count) AS gpu_known_count,
    CASE WHEN bool_or(NOT has_all_attempts) THEN false
        WHEN count(has_all_attempts) = count(*) THEN true END AS has_all_attempts
FROM attempt_outcome
GROUP BY ALL
