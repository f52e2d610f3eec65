/*
doc = "Reserved GPU time per day, and what of it jobs of the reservation used. A reservation stands as last observed by the end of the day, at most 7 days before; its GPUs are those it lists, else those of its nodes."
grain = ["cluster", "reservation", "day_ts"]
time = "day_ts"
lookback = "8d"
sort = ["cluster", "day_ts", "reservation"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
reservation = { type = "VARCHAR", doc = "name" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
gpu_count = { type = "DOUBLE", doc = "GPUs set aside; NULL if neither they nor its nodes' GPUs are known", unit = "count" }
reserved_gpu_s = { type = "DOUBLE", doc = "GPU-seconds set aside on the day", unit = "s" }
used_gpu_s = { type = "DOUBLE", doc = "GPU-seconds that attempts submitted to it held, within its time", unit = "s" }
unused_gpu_s = { type = "DOUBLE", doc = "reserved less used", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of its attempts' seconds with known GPUs; 1 if it had none", unit = "ratio" }
*/
WITH observed AS (
    SELECT *, unnest(generate_series(
        date_trunc('day', ts), date_trunc('day', ts) + INTERVAL 7 DAY, INTERVAL 1 DAY
    ))::TIMESTAMP AS day_ts
    FROM reservation
),
latest AS (
    SELECT
        cluster, reservation, day_ts,
        arg_max(start_ts, ts) AS start_ts,
        arg_max(end_ts, ts) AS end_ts,
        arg_max(gpu_count, ts) AS gpu_count,
        arg_max(node_list, ts) AS node_list
    FROM observed
    GROUP BY ALL
),
standing AS (
    SELECT
        *,
        greatest(start_ts, day_ts) AS from_ts,
        least(end_ts, day_ts + INTERVAL 1 DAY) AS to_ts
    FROM latest
    WHERE start_ts < day_ts + INTERVAL 1 DAY AND end_ts > day_ts
),
node_gpus AS (
    SELECT s.cluster, s.reservation, s.day_ts, sum(n.gpu_count) AS gpu_count
    FROM (SELECT cluster, reservation, day_ts, unnest(node_list) AS node FROM standing) AS s
    JOIN (SELECT cluster, node, day_ts, max(gpu_count) AS gpu_count FROM node_service GROUP BY ALL) AS n
        USING (cluster, node, day_ts)
    GROUP BY ALL
),
used AS (
    SELECT
        s.cluster, s.reservation, s.day_ts,
        sum(coalesce(a.alloc_gpu_amount, a.alloc_gpus) * held_s) AS gpu_s,
        sum(held_s) AS held_s,
        sum(held_s) FILTER (coalesce(a.alloc_gpu_amount, a.alloc_gpus) IS NOT NULL OR a.gpu_count_source = 'no_gpu_entry') AS known_s
    FROM standing AS s
    JOIN (
        SELECT *, greatest(start_ts, coalesce(end_ts, observed_ts, start_ts)) AS until_ts FROM job_attempt
        WHERE start_ts IS NOT NULL AND reservation IS NOT NULL
    ) AS a
        ON a.cluster = s.cluster AND a.reservation = s.reservation AND a.start_ts < s.to_ts AND a.until_ts > s.from_ts,
    LATERAL (SELECT epoch(least(a.until_ts, s.to_ts) - greatest(a.start_ts, s.from_ts)) AS held_s)
    GROUP BY ALL
),
summed AS (
    SELECT
        s.cluster, s.reservation, s.day_ts,
        coalesce(s.gpu_count, n.gpu_count)::DOUBLE AS gpu_count,
        coalesce(s.gpu_count, n.gpu_count)::DOUBLE * epoch(s.to_ts - s.from_ts) AS reserved_gpu_s,
        CASE WHEN u.held_s IS NULL THEN 0.0 ELSE u.gpu_s END::DOUBLE AS used_gpu_s,
        CASE WHEN u.held_s > 0 THEN coalesce(u.known_s, 0) / u.held_s ELSE 1 END::DOUBLE AS coverage_ratio
    FROM standing AS s
    LEFT JOIN node_gpus AS n USING (cluster, reservation, day_ts)
    LEFT JOIN used AS u USING (cluster, reservation, day_ts)
)
SELECT
    cluster, reservation, day_ts, gpu_count, reserved_gpu_s, used_gpu_s,
    if(reserved_gpu_s > used_gpu_s, reserved_gpu_s - used_gpu_s, 0 * (reserved_gpu_s - used_gpu_s)) AS unused_gpu_s,
    coverage_ratio
FROM summed
