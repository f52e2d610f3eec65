/*
doc = "Everybody who ever had a job, so that a name can be told from a scheduler user's whatever the day."
grain = ["cluster", "principal"]
sort = ["principal"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the jobs" }
principal = { type = "VARCHAR", doc = "user: job_attempt.principal" }
*/
SELECT DISTINCT cluster, principal
FROM job_attempt
WHERE principal IS NOT NULL
