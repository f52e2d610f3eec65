/*
doc = """
PCIe and NVLink of each GPU per day: what the links are, what they should be, and what went wrong on them.

PCIe: a minute is narrow when it has fewer lanes than expected, idle or not, because width does not fall when
idle. It is slow when the GPU was busy and never reached the expected generation; idle links drop their
generation to save power and are not judged. Expected is what GPU and slot can do; but where at least
min_peers GPUs of the model report and most of them run at less, that less is how the fleet is built (a x8
riser, an older host), and is expected.

NVLink: expected links are the inventory's count; else what most GPUs of the model in the cluster have up, of
at least min_peers; so a PCIe part without bridge misses nothing. Readings are those of gpu_link_sample that
state link states.

Increases count within the day from gpu_minute, and NULL there is unknown here. Error counts of NVLink 4 and
older and of NVLink 5 are different counters under one name.
"""
grain = ["cluster", "node", "gpu_uuid", "day_ts"]
time = "day_ts"
sort = ["cluster", "node", "gpu_uuid"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_index = { type = "INTEGER", doc = "the driver's index on that node" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
coverage_ratio = { type = "DOUBLE", doc = "share of the day for which a sample holds", unit = "ratio" }
pcie_width_lanes = { type = "INTEGER", doc = "fewest lanes of the day", unit = "lanes" }
pcie_width_expected_lanes = { type = "INTEGER", doc = "lanes it should have; NULL: unknown", unit = "lanes" }
pcie_width_minute_count = { type = "BIGINT", doc = "minutes in which the width is known", unit = "count" }
pcie_narrow_minute_count = { type = "BIGINT", doc = "of them with fewer lanes than expected; NULL: expectation unknown", unit = "count" }
pcie_gen_busy = { type = "INTEGER", doc = "lowest generation of busy minutes, each at its best", unit = "generation" }
pcie_gen_expected = { type = "INTEGER", doc = "generation it should reach when busy; NULL: unknown", unit = "generation" }
pcie_busy_minute_count = { type = "BIGINT", doc = "busy minutes in which the generation is known", unit = "count" }
pcie_slow_minute_count = { type = "BIGINT", doc = "of them below the expected generation; NULL: expectation unknown", unit = "count" }
pcie_degraded_start_ts = { type = "TIMESTAMP", doc = "start of the first narrow or slow minute" }
pcie_degraded_end_ts = { type = "TIMESTAMP", doc = "end of the last" }
pcie_degraded_ts = { type = "TIMESTAMP", doc = "end of the min_minutes-th such minute, or of the last where every minute of a known width is narrow (a daily reading); NULL: fewer" }
pcie_replay_new_count = { type = "BIGINT", doc = "retries", unit = "count" }
pcie_replay_most_per_min_count = { type = "BIGINT", doc = "most retries in a minute", unit = "count" }
pcie_replay_high_minute_count = { type = "BIGINT", doc = "minutes above DCGM's limit for generation and lanes", unit = "count" }
pcie_replay_high_start_ts = { type = "TIMESTAMP", doc = "start of the first such minute" }
pcie_replay_high_end_ts = { type = "TIMESTAMP", doc = "end of the last" }
pcie_replay_high_ts = { type = "TIMESTAMP", doc = "end of the third; NULL: fewer" }
pcie_correctable_error_new_count = { type = "BIGINT", doc = "correctable errors", unit = "count" }
nvlink_expected_count = { type = "BIGINT", doc = "links that should be up; NULL: unknown", unit = "count" }
nvlink_expected_source = { type = "VARCHAR", doc = "inventory or peers" }
nvlink_up_min_count = { type = "BIGINT", doc = "fewest links up in a reading", unit = "count" }
nvlink_up_last_count = { type = "BIGINT", doc = "links up in the day's last reading", unit = "count" }
nvlink_reading_count = { type = "BIGINT", doc = "readings that state link states", unit = "count" }
nvlink_lost_reading_count = { type = "BIGINT", doc = "of them with fewer links up than expected; NULL: expectation unknown", unit = "count" }
nvlink_lost_start_ts = { type = "TIMESTAMP", doc = "first such reading" }
nvlink_lost_end_ts = { type = "TIMESTAMP", doc = "last such reading" }
nvlink_lost_ts = { type = "TIMESTAMP", doc = "second such reading; the first where the day has only one reading; NULL: the loss was seen once and not again" }
nvlink_crc_new_count = { type = "BIGINT", doc = "CRC errors", unit = "count" }
nvlink_replay_new_count = { type = "BIGINT", doc = "retries", unit = "count" }
nvlink_recovery_new_count = { type = "BIGINT", doc = "recoveries", unit = "count" }
nvlink_recovery_failed_new_count = { type = "BIGINT", doc = "recoveries that failed", unit = "count" }
nvlink_crc_most_per_min_count = { type = "BIGINT", doc = "most CRC errors in a minute", unit = "count" }
nvlink_busy_bytes_per_s = { type = "DOUBLE", doc = "mean NVLink rate of busy minutes, both directions", unit = "bytes/s" }
nvlink_effective_error_new_count = { type = "BIGINT", doc = "errors left after correction (NVLink 5)", unit = "count" }
nvlink_effective_ber_ratio = { type = "DOUBLE", doc = "highest bit error rate after correction (NVLink 5); DCGM fails a link above 1e-12", unit = "ratio" }
nvlink_error_minute_count = { type = "BIGINT", doc = "minutes with a recovery, with max_crc_per_min or more, or with a bit error rate above 1e-12 after correction; NULL: no link errors known", unit = "count" }
nvlink_error_start_ts = { type = "TIMESTAMP", doc = "start of the first such minute" }
nvlink_error_end_ts = { type = "TIMESTAMP", doc = "end of the last" }
fabric_manager_status = { type = "INTEGER", doc = "last state of the fabric manager: 0 unsupported, 1 not started, 2 in progress, 3 ready, 4 failed", unit = "code" }
fabric_down_start_ts = { type = "TIMESTAMP", doc = "first sample with a fabric fault or the manager not ready (1, 2, 4)" }
fabric_down_end_ts = { type = "TIMESTAMP", doc = "last such sample" }
fabric_down_sample_count = { type = "BIGINT", doc = "samples that say so; NULL: neither manager nor mask known", unit = "count" }
fabric_fault_sample_count = { type = "BIGINT", doc = "samples whose fabric_health_mask names a fault: a field of two bits at 1, or a configuration (four bits from bit 8) of 2 or more; NULL: no mask", unit = "count" }
fabric_health_mask = { type = "BIGINT", doc = "last mask", unit = "bits" }

[params.min_busy_ratio]
default = 0.5
doc = "ratio; kernels resident in half of a minute keep the link from dropping for the whole of it. Own choice; the busy T4 sample has 0.91, the idle L4 sample 0."
[params.min_peers]
default = 4
doc = "count of GPUs of a model in the cluster from which what most of them have is an expectation. Fewer could all be wrong. Own choice, as the peer rules of telemetry studies ask for at least four."
[params.max_crc_per_min]
default = 6000
doc = "count; DCGM fails a link at 100 CRC errors a second and warns at one, which imbue found not to matter."
[params.min_minutes]
default = 10
doc = "count of narrow or slow minutes that suffices. Own choice: a link that retrains is back within seconds."
*/
WITH minute AS (
    SELECT
        *,
        date_trunc('day', minute_ts)::TIMESTAMP AS day_ts,
        coalesce(gpu_busy_ratio, gr_engine_active_ratio, sm_active_ratio) >= getvariable('min_busy_ratio') AS is_busy,
        greatest(nvlink_recovery_new_count, nvlink_recovery_failed_new_count) > 0
            OR nvlink_crc_new_count >= getvariable('max_crc_per_min')
            OR nvlink_effective_ber_ratio > 1e-12 AS has_link_error,
        -- DCGM's health check: replays a minute and lane by generation; unknown links get the largest, 16 lanes of 6.
        pcie_replay_new_count > ceil(
            coalesce([0.15, 0.3, 0.48, 0.96, 1.92, 3.84][pcie_link_gen_best], 3.84) * coalesce(pcie_link_width_min, 16)
        ) AS has_many_replays
    FROM gpu_minute
    WHERE mig_instance = ''
),
gpu_day AS (
    SELECT
        cluster, node, gpu_uuid, day_ts,
        arg_max(gpu_index, minute_ts) AS gpu_index,
        arg_max(gpu_model, minute_ts) AS gpu_model,
        round(sum(coverage_ratio) / 1440, 6) AS coverage_ratio,
        min(pcie_link_width_min) AS pcie_width_lanes,
        max(pcie_link_width_min) AS width_best,
        max(pcie_link_width_max) AS width_part,
        count(pcie_link_width_min) AS pcie_width_minute_count,
        min(pcie_link_gen_best) FILTER (is_busy) AS pcie_gen_busy,
        max(pcie_link_gen_best) FILTER (is_busy) AS gen_best,
        max(pcie_link_gen_max) AS gen_part,
        count(pcie_link_gen_best) FILTER (is_busy) AS pcie_busy_minute_count,
        sum(pcie_replay_new_count)::BIGINT AS pcie_replay_new_count,
        max(pcie_replay_new_count) AS pcie_replay_most_per_min_count,
        sum(has_many_replays::INTEGER)::BIGINT AS pcie_replay_high_minute_count,
        min(minute_ts, 3) FILTER (has_many_replays) AS replay_minutes,
        max(minute_ts) FILTER (has_many_replays) + INTERVAL 1 MINUTE AS pcie_replay_high_end_ts,
        sum(pcie_correctable_error_new_count)::BIGINT AS pcie_correctable_error_new_count,
        sum(nvlink_crc_new_count)::BIGINT AS nvlink_crc_new_count,
        sum(nvlink_replay_new_count)::BIGINT AS nvlink_replay_new_count,
        sum(nvlink_recovery_new_count)::BIGINT AS nvlink_recovery_new_count,
        sum(nvlink_recovery_failed_new_count)::BIGINT AS nvlink_recovery_failed_new_count,
        max(nvlink_crc_new_count) AS nvlink_crc_most_per_min_count,
        sum(nvlink_effective_error_new_count)::BIGINT AS nvlink_effective_error_new_count,
        max(nvlink_effective_ber_ratio) AS nvlink_effective_ber_ratio,
        count(*) FILTER (has_link_error) AS error_count,
        min(minute_ts) FILTER (has_link_error) AS nvlink_error_start_ts,
        max(minute_ts) FILTER (has_link_error) + INTERVAL 1 MINUTE AS nvlink_error_end_ts,
        count(coalesce(nvlink_recovery_new_count, nvlink_crc_new_count, nvlink_effective_ber_ratio)) AS error_known,
        avg(coalesce(nvlink_tx_bytes_per_s + nvlink_rx_bytes_per_s, nvlink_bandwidth_bytes_per_s))
            FILTER (is_busy) AS nvlink_busy_bytes_per_s
    FROM minute
    GROUP BY ALL
),
fabric AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        arg_max(fabric_manager_status, ts) AS fabric_manager_status,
        sum(has_fault::INTEGER)::BIGINT AS fabric_fault_sample_count,
        count(*) FILTER (has_fault OR fabric_manager_status IN (1, 2, 4)) AS fabric_down_sample_count,
        min(ts) FILTER (has_fault OR fabric_manager_status IN (1, 2, 4)) AS fabric_down_start_ts,
        max(ts) FILTER (has_fault OR fabric_manager_status IN (1, 2, 4)) AS fabric_down_end_ts,
        arg_max(fabric_health_mask, ts) AS fabric_health_mask
    FROM (
        SELECT
            *,
            fabric_health_mask & 3 = 1 OR (fabric_health_mask >> 2) & 3 = 1 OR (fabric_health_mask >> 4) & 3 = 1
                OR (fabric_health_mask >> 6) & 3 = 1 OR (fabric_health_mask >> 8) & 15 >= 2 AS has_fault
        FROM gpu_sample
    )
    WHERE coalesce(fabric_manager_status, fabric_health_mask) IS NOT NULL
    GROUP BY ALL
),
-- What most GPUs of a model have; of two equally common values the larger.
pcie_peer AS (
    SELECT cluster, gpu_model, day_ts, quantity, max({'gpus': gpus, 'value': value}).value AS peer_value
    FROM (
        SELECT
            cluster, gpu_model, day_ts, quantity, value,
            count(*) AS gpus,
            sum(count(*)) OVER (PARTITION BY cluster, gpu_model, day_ts, quantity) AS all_gpus
        FROM (UNPIVOT gpu_day ON width_best, gen_best INTO NAME quantity VALUE value)
        GROUP BY cluster, gpu_model, day_ts, quantity, value
    )
    WHERE all_gpus >= getvariable('min_peers')
    GROUP BY ALL
),
expected AS (
    SELECT
        d.*,
        least(width_part, w.peer_value) AS pcie_width_expected_lanes,
        least(gen_part, g.peer_value) AS pcie_gen_expected
    FROM gpu_day d
    LEFT JOIN pcie_peer w
        ON w.cluster = d.cluster AND w.gpu_model = d.gpu_model AND w.day_ts = d.day_ts AND w.quantity = 'width_best'
    LEFT JOIN pcie_peer g
        ON g.cluster = d.cluster AND g.gpu_model = d.gpu_model AND g.day_ts = d.day_ts AND g.quantity = 'gen_best'
),
pcie AS (
    SELECT
        cluster, node, gpu_uuid, day_ts,
        count(*) FILTER (is_narrow) AS narrow_count,
        count(*) FILTER (is_slow) AS slow_count,
        min(minute_ts) AS pcie_degraded_start_ts,
        max(minute_ts) + INTERVAL 1 MINUTE AS pcie_degraded_end_ts,
        min(minute_ts, getvariable('min_minutes')) AS first_minutes
    FROM (
        SELECT
            cluster, node, gpu_uuid, day_ts, minute_ts,
            coalesce(pcie_link_width_min < pcie_width_expected_lanes, false) AS is_narrow,
            coalesce(is_busy AND pcie_link_gen_best < pcie_gen_expected, false) AS is_slow
        FROM minute
        JOIN expected USING (cluster, node, gpu_uuid, day_ts)
    )
    WHERE is_narrow OR is_slow
    GROUP BY ALL
),
link_reading AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', ts)::TIMESTAMP AS day_ts, ts,
        arg_max(gpu_model, ts) AS gpu_model,
        count(*) FILTER (state IN ('up', 'asleep')) AS up_count
    FROM gpu_link_sample
    GROUP BY ALL
    HAVING count(state) > 0
),
link_day AS (
    SELECT
        cluster, node, gpu_uuid, day_ts,
        arg_max(gpu_model, ts) AS gpu_model,
        count(*) AS nvlink_reading_count,
        min(up_count) AS nvlink_up_min_count,
        max(up_count) AS up_best,
        arg_max(up_count, ts) AS nvlink_up_last_count
    FROM link_reading
    GROUP BY ALL
),
link_peer AS (
    SELECT cluster, gpu_model, day_ts, max({'gpus': gpus, 'up': up_best}).up AS peer_count
    FROM (
        SELECT
            cluster, gpu_model, day_ts, up_best, count(*) AS gpus,
            sum(count(*)) OVER (PARTITION BY cluster, gpu_model, day_ts) AS all_gpus
        FROM link_day
        GROUP BY cluster, gpu_model, day_ts, up_best
    )
    WHERE all_gpus >= getvariable('min_peers')
    GROUP BY ALL
),
listed AS (
    SELECT l.cluster, l.node, l.gpu_uuid, l.day_ts, max(nvlink_count)::BIGINT AS listed_count
    FROM link_day l
    JOIN inventory_gpu_span i
        ON i.cluster = l.cluster AND i.gpu_uuid = l.gpu_uuid
        AND start_ts < day_ts + INTERVAL 1 DAY AND coalesce(end_ts, 'infinity'::TIMESTAMP) > day_ts
    GROUP BY ALL
),
link_expected AS (
    SELECT
        link_day.*,
        coalesce(listed_count, peer_count) AS nvlink_expected_count,
        CASE
            WHEN listed_count IS NOT NULL THEN 'inventory'
            WHEN peer_count IS NOT NULL THEN 'peers'
        END AS nvlink_expected_source
    FROM link_day
    LEFT JOIN listed USING (cluster, node, gpu_uuid, day_ts)
    LEFT JOIN link_peer USING (cluster, gpu_model, day_ts)
),
nvlink AS (
    SELECT
        e.*,
        count(*) FILTER (up_count < nvlink_expected_count) AS lost_count,
        min(ts) FILTER (up_count < nvlink_expected_count) AS nvlink_lost_start_ts,
        min(ts, 2) FILTER (up_count < nvlink_expected_count) AS first_lost,
        max(ts) FILTER (up_count < nvlink_expected_count) AS nvlink_lost_end_ts
    FROM link_expected e
    JOIN link_reading r USING (cluster, node, gpu_uuid, day_ts)
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid,
    expected.gpu_index,
    coalesce(expected.gpu_model, nvlink.gpu_model) AS gpu_model,
    day_ts,
    coalesce(coverage_ratio, 0) AS coverage_ratio,
    pcie_width_lanes, pcie_width_expected_lanes, pcie_width_minute_count,
    if(pcie_width_expected_lanes IS NULL OR pcie_width_minute_count = 0, NULL, coalesce(narrow_count, 0))
        AS pcie_narrow_minute_count,
    pcie_gen_busy, pcie_gen_expected, pcie_busy_minute_count,
    if(pcie_gen_expected IS NULL OR pcie_busy_minute_count = 0, NULL, coalesce(slow_count, 0))
        AS pcie_slow_minute_count,
    pcie_degraded_start_ts, pcie_degraded_end_ts,
    first_minutes[if(
        narrow_count = pcie_width_minute_count, least(narrow_count, getvariable('min_minutes')), getvariable('min_minutes')
    )] + INTERVAL 1 MINUTE AS pcie_degraded_ts,
    pcie_replay_new_count, pcie_replay_most_per_min_count, pcie_replay_high_minute_count,
    replay_minutes[1] AS pcie_replay_high_start_ts, pcie_replay_high_end_ts,
    replay_minutes[3] + INTERVAL 1 MINUTE AS pcie_replay_high_ts,
    pcie_correctable_error_new_count,
    nvlink_expected_count, nvlink_expected_source, nvlink_up_min_count, nvlink_up_last_count,
    nvlink_reading_count,
    if(nvlink_expected_count IS NULL, NULL, lost_count) AS nvlink_lost_reading_count,
    nvlink_lost_start_ts, nvlink_lost_end_ts,
    if(nvlink_reading_count = 1, nvlink_lost_start_ts, first_lost[2]) AS nvlink_lost_ts,
    nvlink_crc_new_count, nvlink_replay_new_count, nvlink_recovery_new_count, nvlink_recovery_failed_new_count,
    nvlink_crc_most_per_min_count, nvlink_busy_bytes_per_s,
    nvlink_effective_error_new_count, nvlink_effective_ber_ratio,
    if(error_known = 0, NULL, error_count) AS nvlink_error_minute_count, nvlink_error_start_ts, nvlink_error_end_ts,
    fabric_manager_status, fabric_down_start_ts, fabric_down_end_ts, fabric_down_sample_count,
    fabric_fault_sample_count, fabric_health_mask
FROM expected
FULL JOIN nvlink USING (cluster, node, gpu_uuid, day_ts)
LEFT JOIN pcie USING (cluster, node, gpu_uuid, day_ts)
LEFT JOIN fabric USING (cluster, node, gpu_uuid, day_ts)
