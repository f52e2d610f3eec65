/*
doc = """
Energy that the GPUs of each job used, per attempt and day. Boards of GPUs only: hosts, switches and cooling
are not in it.

Accounting names nodes, not GPUs. A GPU is a job's when step records of the attempt name it, else when the
attempt holds as many GPUs on the node as the node has that day, by inventory and telemetry together. GPUs of
a job that shares a node without step records are not known: they lower coverage_ratio, and no energy is
guessed.

Each minute counts with the share of it that lies within the attempt. Its energy is the increase of the energy
counter; where that is unknown, mean power times the time a sample holds. Whole GPUs only, so a GPU under MIG
counts once. Minutes with neither are not covered, and energy_j is what the others used.
"""
grain = ["cluster", "job_id", "attempt", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
principal = { type = "VARCHAR", doc = "user who submitted the job" }
account = { type = "VARCHAR", doc = "account charged" }
alloc_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held that day; NULL: GPUs not recorded", unit = "s" }
gpu_count = { type = "BIGINT", doc = "GPUs known to be the job's", unit = "count" }
gpu_source = { type = "VARCHAR", doc = "how they are known: whole_node, step_record, mixed; NULL: none is" }
coverage_ratio = { type = "DOUBLE", doc = "GPU-seconds whose energy is known, of alloc_gpu_s", unit = "ratio" }
energy_j = { type = "DOUBLE", doc = "energy of the covered GPU-seconds; NULL: none is covered", unit = "j" }
counter_ratio = { type = "DOUBLE", doc = "share of energy_j that the energy counter gave", unit = "ratio" }
counter_check_j = { type = "DOUBLE", doc = "counter energy of minutes that have both witnesses", unit = "j" }
power_check_j = { type = "DOUBLE", doc = "power times time over the same minutes; the two should agree within a few per cent", unit = "j" }
power_w = { type = "DOUBLE", doc = "energy_j per covered second and GPU", unit = "w" }
token_count = { type = "BIGINT", doc = "tokens trained on: per step the sum over data-parallel ranks, of step records with clock time; NULL: not recorded", unit = "count" }
energy_per_token_j = { type = "DOUBLE", doc = "energy_j over coverage_ratio, per token; NULL below min_coverage_ratio, because the rest is taken to be like the covered part", unit = "j" }

[params.min_coverage_ratio]
default = 0.9
doc = "ratio; below it no energy per token is given. Own choice."
*/
WITH day AS (SELECT DISTINCT date_trunc('day', minute_ts)::TIMESTAMP AS day_ts FROM gpu_minute),
held AS (
    SELECT
        cluster, job_id, attempt, node, day_ts, principal, account, gpu_count,
        greatest(start_ts, day_ts) AS start_ts,
        least(coalesce(end_ts, observed_ts, start_ts), day_ts + INTERVAL 1 DAY) AS end_ts
    FROM gpu_allocation
    JOIN day
        ON start_ts < day_ts + INTERVAL 1 DAY AND coalesce(end_ts, observed_ts, start_ts) > day_ts
    WHERE gpu_count IS DISTINCT FROM 0
),
listed AS (
    SELECT DISTINCT i.cluster, i.node, i.gpu_uuid, day_ts
    FROM inventory_gpu_span i
    JOIN day
        ON start_ts < day_ts + INTERVAL 1 DAY AND coalesce(end_ts, 'infinity'::TIMESTAMP) > day_ts
),
-- An exporter in a pod reports the pod's name: the inventory's host, where it knows the GPU.
minute AS (
    SELECT
        m.cluster, coalesce(l.node, m.node) AS node, m.gpu_uuid, date_trunc('day', minute_ts)::TIMESTAMP AS day_ts,
        minute_ts, energy_used_j, power_w, m.coverage_ratio
    FROM gpu_minute m
    LEFT JOIN inventory_gpu_span l
        ON l.cluster = m.cluster AND l.gpu_uuid = m.gpu_uuid
        AND minute_ts >= l.start_ts AND minute_ts < coalesce(l.end_ts, 'infinity'::TIMESTAMP)
    WHERE mig_instance = ''
),
on_node AS (
    SELECT cluster, node, gpu_uuid, day_ts FROM listed
    UNION
    SELECT DISTINCT cluster, node, gpu_uuid, day_ts FROM minute
),
node_size AS (SELECT cluster, node, day_ts, count(*) AS node_gpu_count FROM on_node GROUP BY ALL),
named AS (
    SELECT DISTINCT cluster, job_id, attempt, gpu_uuid
    FROM step_sample
    WHERE gpu_uuid IS NOT NULL
),
owned AS (
    SELECT
        h.cluster, job_id, attempt, h.node, h.day_ts, h.start_ts, h.end_ts, g.gpu_uuid,
        if(n.gpu_uuid IS NULL, 'whole_node', 'step_record') AS gpu_source
    FROM held h
    JOIN on_node g USING (cluster, node, day_ts)
    JOIN node_size s USING (cluster, node, day_ts)
    LEFT JOIN named n USING (cluster, job_id, attempt, gpu_uuid)
    WHERE n.gpu_uuid IS NOT NULL OR h.gpu_count = node_gpu_count
),
used AS (
    SELECT
        o.cluster, job_id, attempt, o.day_ts,
        greatest(0, epoch(least(end_ts, minute_ts + INTERVAL 1 MINUTE) - greatest(start_ts, minute_ts))) / 60 AS part,
        energy_used_j,
        power_w * m.coverage_ratio * 60 AS power_j,
        m.coverage_ratio * 60 AS covered_s
    FROM owned o
    JOIN minute m
        ON m.cluster = o.cluster AND m.node = o.node AND m.gpu_uuid = o.gpu_uuid
        AND minute_ts > start_ts - INTERVAL 1 MINUTE AND minute_ts < end_ts
),
job_used AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        sum(part * covered_s) FILTER (coalesce(energy_used_j, power_j) IS NOT NULL) AS covered_gpu_s,
        sum(part * coalesce(energy_used_j, power_j)) AS energy_j,
        sum(part * energy_used_j) AS counter_j,
        sum(part * energy_used_j) FILTER (power_j IS NOT NULL) AS counter_check_j,
        sum(part * power_j) FILTER (energy_used_j IS NOT NULL) AS power_check_j
    FROM used
    GROUP BY ALL
),
job_owned AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        count(DISTINCT gpu_uuid) AS gpu_count,
        if(count(DISTINCT gpu_source) = 1, min(gpu_source), 'mixed') AS gpu_source
    FROM owned
    GROUP BY ALL
),
job_day AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        min(principal) AS principal,
        min(account) AS account,
        if(count(gpu_count) = count(*), sum(gpu_count * greatest(0, epoch(end_ts - start_ts))), NULL) AS alloc_gpu_s
    FROM held
    GROUP BY ALL
),
token AS (
    SELECT cluster, job_id, attempt, day_ts, sum(tokens)::BIGINT AS token_count
    FROM (
        SELECT
            cluster, job_id, attempt, date_trunc('day', ts)::TIMESTAMP AS day_ts, step, dp_rank,
            max(tokens) AS tokens
        FROM step_sample
        WHERE tokens IS NOT NULL AND dp_rank IS NOT NULL AND time_basis = 'absolute'
        GROUP BY ALL
    )
    GROUP BY ALL
),
judged AS (
    SELECT
        *,
        if(energy_j IS NULL, 0, covered_gpu_s) / nullif(alloc_gpu_s, 0) AS coverage_ratio
    FROM job_day
    LEFT JOIN job_owned USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN job_used USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN token USING (cluster, job_id, attempt, day_ts)
)
SELECT
    cluster, job_id, attempt, day_ts, principal, account, alloc_gpu_s,
    coalesce(gpu_count, 0) AS gpu_count,
    gpu_source, coverage_ratio, energy_j,
    coalesce(counter_j, 0) / nullif(energy_j, 0) AS counter_ratio,
    counter_check_j, power_check_j,
    energy_j / nullif(covered_gpu_s, 0) AS power_w,
    token_count,
    if(
        coverage_ratio >= getvariable('min_coverage_ratio'),
        energy_j / coverage_ratio / nullif(token_count, 0),
        NULL
    ) AS energy_per_token_j
FROM judged
