/*
title = "A GPU's power limit is below that of its peers"
domain = "performance"
kind = "power_cap"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A GPU whose power limit lies more than 2 % below the limit most GPUs of its model in the cluster have, in two
hours of a day, as long as fewer than a quarter of them have so low a one. `high` below two thirds of the
peers' limit. Reported on the first day; again when it is lowered further.
"""
why = """
A limit that a benchmark or a person left behind slows every job on that GPU and no error says so: a script
that left 500 of 1400 W on a GB300 halved its throughput.
"""
looks_like = """
A cap set for the whole fleet, or for a quarter of it and more (a rack with a weak feed): a decision, not a
left-over. The first nodes of such a change look like left-overs until the rest follows. Parts of one name
with different limits as delivered are compared with their like, where the exporter gives that limit.
"""
misses = """
A cap that the exporter does not show: enforced below the driver, the only sign is power that never rises
(gpu_clock_hour). Less than four GPUs of the model. A node group of a quarter of the fleet or more that was
capped by mistake. Limits that last less than two hours. Exporters without power limits (dcgm-exporter's
default leaves them out).
"""
todo = """
Ask who set it (`nvidia-smi -q -d POWER` shows requested, enforced and default limit); set it back at the next
idle moment; make job epilogs restore it.
"""
lookback = "7d"

[params.min_peers]
default = 4
doc = "count of GPUs of the model with known limits. As in gpu_link_day."
[params.min_low_ratio]
default = 0.02
doc = "ratio below the peers' limit. Own choice: limits are set in whole watts, 2 % of 700 W are 14 W."
[params.max_share_ratio]
default = 0.25
doc = "ratio of the GPUs with so low a limit from which it counts as a decision. Own choice."
[params.min_hours]
default = 2
doc = "count of hours of the day with the low limit. Own choice: leaves out a benchmark that restores it."
[params.high_ratio]
default = 0.67
doc = "ratio of the peers' limit below which severity is high. Own choice: by the reported case, a third of the limit costs half of the throughput."

[needs]
gpu_clock_hour = "power_limit_w IS NOT NULL"
*/
WITH limited AS (
    SELECT *, coalesce(power_limit_default_w, 0) AS delivered_w
    FROM gpu_clock_hour
    WHERE power_limit_w IS NOT NULL
),
counted AS (
    SELECT cluster, gpu_model, delivered_w, hour_ts, power_limit_w, count(*) AS gpus
    FROM limited
    GROUP BY ALL
),
spread AS (
    SELECT
        *,
        sum(gpus) OVER model_hour AS all_gpus,
        sum(gpus) OVER (model_hour ORDER BY power_limit_w ROWS UNBOUNDED PRECEDING) AS gpus_so_low,
        max({'gpus': gpus, 'limit_w': power_limit_w}) OVER model_hour AS most
    FROM counted
    WINDOW model_hour AS (PARTITION BY cluster, gpu_model, delivered_w, hour_ts)
),
gpu_day AS (
    SELECT
        cluster, node, gpu_uuid, gpu_model, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        list(hour_ts + INTERVAL 1 HOUR ORDER BY hour_ts) FILTER (is_low) AS low_until,
        min(hour_ts) FILTER (is_low) AS start_ts,
        min(power_limit_w / most.limit_w) FILTER (is_low) AS limit_ratio,
        min(power_limit_w) FILTER (is_low) AS limit_w,
        max(most.limit_w) FILTER (is_low) AS peer_limit_w,
        max(power_limit_default_w) AS default_w,
        max(all_gpus) AS peer_count,
        avg(power_w) FILTER (is_low) AS busy_power_w
    FROM (
        SELECT
            l.*, most, all_gpus,
            all_gpus >= getvariable('min_peers')
                AND l.power_limit_w < most.limit_w * (1 - getvariable('min_low_ratio'))
                AND gpus_so_low < all_gpus * getvariable('max_share_ratio') AS is_low
        FROM limited l
        JOIN spread s
            ON s.cluster = l.cluster AND s.gpu_model IS NOT DISTINCT FROM l.gpu_model AND s.delivered_w = l.delivered_w
            AND s.hour_ts = l.hour_ts AND s.power_limit_w = l.power_limit_w
    )
    GROUP BY ALL
),
compared AS (
    SELECT
        *,
        len(low_until) >= getvariable('min_hours') AS is_low_day,
        lag(if(len(low_until) >= getvariable('min_hours'), limit_w, NULL)) OVER gpu AS last_limit_w
    FROM gpu_day
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid ORDER BY day_ts)
)
SELECT
    concat_ws('/', cluster, gpu_uuid, day_ts::DATE) AS subject,
    1 - limit_ratio AS score,
    if(limit_ratio < getvariable('high_ratio'), 'high', 'medium') AS severity,
    start_ts,
    low_until[-1] AS end_ts,
    low_until[getvariable('min_hours')] - INTERVAL 1 MICROSECOND AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    limit_ratio AS lower,
    limit_ratio AS upper,
    json_object(
        'quantity', 'power limit of the limit most GPUs of the model have',
        'limit_w', limit_w,
        'peer_limit_w', peer_limit_w,
        'limit_as_delivered_w', default_w,
        'busy_power_w', round(busy_power_w, 1),
        'low_hour_count', len(low_until),
        'gpu_count', peer_count,
        'gpu_model', gpu_model
    )::VARCHAR AS evidence
FROM compared
WHERE is_low_day AND limit_w < coalesce(last_limit_w, 'infinity'::DOUBLE)
