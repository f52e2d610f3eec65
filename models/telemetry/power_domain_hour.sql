/*
doc = """
Power of GPUs per hour against their limits: by node, rack, leaf switch and cluster. Boards of GPUs only; what
hosts, switches, fans and losses add, and what a rack's feed can carry, no input says: the headroom is that of
the GPUs' own limits, which they may draw all at once.

GPUs belong to racks and leaf switches by the inventory, matched by UUID; those that it does not list count
for their node (as the exporter names it) and cluster alone. Whole GPUs, so MIG instances and pods count once.
power_peak_w is the highest five-minute mean of the domain, over five-minute windows in which every GPU seen
in the hour was seen: one that is missing from a window would make it look low.
"""
grain = ["cluster", "domain_kind", "domain", "hour_ts"]
time = "hour_ts"
sort = ["domain_kind", "cluster", "domain", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
domain_kind = { type = "VARCHAR", doc = "node, rack, leaf_switch or cluster" }
domain = { type = "VARCHAR", doc = "its name" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
gpu_count = { type = "BIGINT", doc = "GPUs that belong to it, by inventory and telemetry together", unit = "count" }
gpu_seen_count = { type = "BIGINT", doc = "of them with power known in the hour", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "GPU-minutes for which samples hold, in windows with power known, of all", unit = "ratio" }
power_w = { type = "DOUBLE", doc = "sum of the mean power of each GPU seen", unit = "w" }
power_peak_w = { type = "DOUBLE", doc = "highest five-minute mean; NULL: no window with all GPUs seen", unit = "w" }
power_peak_ts = { type = "TIMESTAMP", doc = "start of that window" }
power_limit_w = { type = "DOUBLE", doc = "sum of the limits in force, lowest of those windows; NULL unless all are known", unit = "w" }
power_limit_default_w = { type = "DOUBLE", doc = "sum of the limits as delivered of the GPUs seen; NULL unless all are known", unit = "w" }
headroom_w = { type = "DOUBLE", doc = "limits less power, least of those windows; below 0: the boards drew more than their limits", unit = "w" }
headroom_ratio = { type = "DOUBLE", doc = "the same of the limits, least of those windows", unit = "ratio" }
capped_gpu_ratio = { type = "DOUBLE", doc = "share of known time under the software power cap, over the GPUs for which it is known", unit = "ratio" }
gpu_temp_max_c = { type = "INTEGER", doc = "highest core temperature", unit = "c" }
energy_used_j = { type = "DOUBLE", doc = "by the energy counters, as far as known", unit = "j" }
*/
WITH window_5min AS (
    SELECT
        cluster, node, gpu_uuid,
        time_bucket(INTERVAL 5 MINUTE, minute_ts) AS window_ts,
        avg(power_w) AS power_w,
        count(power_w) AS minutes,
        sum(coverage_ratio) AS covered_minutes,
        min(coalesce(power_limit_w, power_limit_set_w)) AS limit_w,
        max(power_limit_default_w) AS default_w,
        sum(coalesce(sw_power_cap_s, mask_sw_power_cap_s)) AS capped_s,
        sum(if(sw_power_cap_s IS NULL, mask_known_s, coverage_ratio * 60))
            FILTER (coalesce(sw_power_cap_s, mask_sw_power_cap_s) IS NOT NULL) AS cap_known_s,
        max(gpu_temp_max_c) AS gpu_temp_max_c,
        sum(energy_used_j) AS energy_used_j
    FROM gpu_minute
    WHERE mig_instance = ''
    GROUP BY ALL
),
hour AS (SELECT DISTINCT cluster, date_trunc('hour', window_ts) AS hour_ts FROM window_5min),
listed AS (
    SELECT
        i.cluster, gpu_uuid, hour_ts,
        min(node) AS node, min(rack) AS rack, min(leaf_switch) AS leaf_switch
    FROM inventory_gpu_span i
    JOIN hour h
        ON h.cluster = i.cluster AND start_ts < hour_ts + INTERVAL 1 HOUR
        AND coalesce(end_ts, 'infinity'::TIMESTAMP) > hour_ts
    GROUP BY ALL
),
gpu_hour AS (
    SELECT
        cluster, gpu_uuid, date_trunc('hour', window_ts) AS hour_ts,
        min(node) AS reported_node,
        sum(power_w * minutes) / nullif(sum(minutes), 0) AS power_w,
        sum(covered_minutes) FILTER (power_w IS NOT NULL) AS covered_minutes,
        max(default_w) AS default_w,
        sum(capped_s) AS capped_s,
        sum(cap_known_s) AS cap_known_s,
        max(gpu_temp_max_c) AS gpu_temp_max_c,
        sum(energy_used_j) AS energy_used_j
    FROM window_5min
    GROUP BY ALL
),
placed AS (
    SELECT
        cluster, gpu_uuid, hour_ts,
        unnest([
            {'kind': 'node', 'name': coalesce(node, reported_node)},
            {'kind': 'rack', 'name': rack},
            {'kind': 'leaf_switch', 'name': leaf_switch},
            {'kind': 'cluster', 'name': cluster}
        ], recursive := true),
        gpu_hour.* EXCLUDE (cluster, gpu_uuid, hour_ts, reported_node)
    FROM gpu_hour
    FULL JOIN listed USING (cluster, gpu_uuid, hour_ts)
),
domain_hour AS (
    SELECT
        cluster, kind, name, hour_ts,
        count(*) AS gpu_count,
        count(power_w) AS gpu_seen_count,
        round(coalesce(sum(covered_minutes), 0) / (count(*) * 60), 6) AS coverage_ratio,
        sum(power_w) AS power_w,
        if(count(default_w) FILTER (power_w IS NOT NULL) = count(power_w), sum(default_w), NULL)
            AS power_limit_default_w,
        sum(capped_s) / nullif(sum(cap_known_s), 0) AS capped_gpu_ratio,
        max(gpu_temp_max_c) AS gpu_temp_max_c,
        sum(energy_used_j) AS energy_used_j
    FROM placed
    WHERE name IS NOT NULL
    GROUP BY ALL
),
domain_window AS (
    SELECT
        p.cluster, kind, name, p.hour_ts, window_ts,
        count(w.power_w) AS seen_count,
        sum(w.power_w) AS power_w,
        if(count(w.limit_w) = count(*), sum(w.limit_w), NULL) AS limit_w
    FROM placed p
    JOIN window_5min w
        ON w.cluster = p.cluster AND w.gpu_uuid = p.gpu_uuid AND date_trunc('hour', window_ts) = p.hour_ts
    WHERE name IS NOT NULL AND w.power_w IS NOT NULL
    GROUP BY ALL
),
peak AS (
    SELECT
        cluster, kind, name, hour_ts,
        max({'w': w.power_w, 'ts': w.window_ts}) AS peak,
        min(limit_w) AS power_limit_w,
        min(limit_w - w.power_w) AS headroom_w,
        min(1 - w.power_w / limit_w) AS headroom_ratio
    FROM domain_window w
    JOIN domain_hour USING (cluster, kind, name, hour_ts)
    WHERE seen_count = gpu_seen_count AND seen_count > 0
    GROUP BY ALL
)
SELECT
    cluster, kind AS domain_kind, name AS domain, hour_ts,
    gpu_count, gpu_seen_count, coverage_ratio, power_w,
    peak.w AS power_peak_w,
    peak.ts AS power_peak_ts,
    power_limit_w, power_limit_default_w,
    headroom_w, headroom_ratio,
    least(capped_gpu_ratio, if(capped_gpu_ratio IS NULL, NULL, 1)) AS capped_gpu_ratio,
    gpu_temp_max_c, energy_used_j
FROM domain_hour
LEFT JOIN peak USING (cluster, kind, name, hour_ts)
