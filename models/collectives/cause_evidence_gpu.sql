/*
doc = """
What a GPU's own telemetry says about each incident while it lasted: one row per incident and kind of
evidence, also where it says nothing (is_found false) or where nothing was recorded (is_known false).

explained_ratio is the part of the slowness that a finding accounts for, at most 1, and 1 for a fact
without size. A clock that is 20 % lower makes work 1.25 times as long; a GPU held back for a fifth of the
time can have lost at most that fifth.
"""
grain = ["incident_id", "evidence_kind"]
time = "day_ts"
lookback = "1d"
sort = ["incident_id"]

[columns]
incident_id = { type = "VARCHAR", doc = "incident.incident_id" }
day_ts = { type = "TIMESTAMP", doc = "incident.day_ts" }
evidence_kind = { type = "VARCHAR", doc = "throttle, clock (against peers at the same minutes), deviation (gpu_deviation_5min: against peers and its own past), power_limit (against peers), gpu_memory, gpu_link, telemetry_loss" }
cause = { type = "VARCHAR", doc = "what it points to, in the words of finding.kind: thermal_throttle, power_brake, power_cap, clock_deficit, hbm_slow, pcie_degraded, nvlink_width, dead_gpu; NULL unless found" }
is_known = { type = "BOOLEAN", doc = "there were records of this kind for this GPU and time", null = false }
is_found = { type = "BOOLEAN", doc = "they show something", null = false }
explained_ratio = { type = "DOUBLE", doc = "part of the incident's slowness that it accounts for; NULL unless found", unit = "ratio" }
figures = { type = "VARCHAR", doc = "JSON object: the figures it rests on; NULL where not known" }

[params.min_throttled_ratio]
default = 0.05
doc = "ratio of the hours concerned; less is what a scrape of a mask shows by chance, or costs under 5 %. As the smallest effect that gpu telemetry is asked to see."
[params.max_clock_ratio]
default = 0.97
doc = "ratio to the median of the peers at the same minutes; boost clocks of healthy parts differ by 1 to 2 %."
[params.max_power_limit_ratio]
default = 0.98
doc = "ratio to the peers' power limit; a limit is a whole number of watts, and a lower one was set or fell."
[params.min_silent_s]
default = 300
doc = "s without a sample after the standstill began, from a GPU that had been reporting. Ten times the exporter's default interval of 30 s."
*/
WITH suspect AS (
    SELECT *
    FROM incident
    WHERE is_timed AND gpu_uuid IS NOT NULL
),

-- Other GPUs of the same job; where nobody knows them, those of the same node.
job_gpu AS (
    SELECT i.incident_id, s.gpu_uuid
    FROM suspect AS i
    JOIN step_straggler AS s
        ON i.cluster = s.cluster AND i.job_id = s.job_id AND i.attempt = s.attempt
        AND i.day_ts = s.day_ts AND i.gpu_uuid <> s.gpu_uuid
),

-- Causes in the words of finding.kind; a GPU below its clocks for no stated reason is most often hot.
held AS (
    SELECT
        i.incident_id, t.gpu_uuid,
        CASE t.cause
            WHEN 'hw_power_brake' THEN 'power_brake'
            WHEN 'sw_power_cap' THEN 'power_cap'
            WHEN 'board_limit' THEN 'power_cap'
            ELSE 'thermal_throttle'
        END AS cause,
        t.gpu_uuid = i.gpu_uuid AS is_own,
        sum(throttled_s) / sum(known_s) AS ratio
    FROM suspect AS i
    JOIN (
        SELECT cluster, gpu_uuid, hour_ts, cause, least(throttled_s, known_s) AS throttled_s, known_s
        FROM gpu_throttle_hour
        WHERE cause IN ('thermal', 'hw_power_brake', 'hw_slowdown', 'sw_power_cap', 'board_limit')
            AND known_s > 0
    ) AS t
        ON i.cluster = t.cluster
        AND t.hour_ts <= i.end_ts AND t.hour_ts > i.start_ts - INTERVAL 1 HOUR
    WHERE t.gpu_uuid = i.gpu_uuid
        OR (i.incident_id, t.gpu_uuid) IN (SELECT (incident_id, gpu_uuid) FROM job_gpu)
    GROUP BY ALL
),

excess AS (
    SELECT
        incident_id, cause,
        max(ratio) FILTER (is_own) AS throttled_ratio,
        coalesce(median(ratio) FILTER (NOT is_own), 0) AS peer_ratio,
        throttled_ratio - peer_ratio AS size
    FROM held
    GROUP BY ALL
    HAVING throttled_ratio IS NOT NULL
),

minute AS (
    SELECT
        i.incident_id, m.minute_ts, m.gpu_uuid, m.gpu_uuid = i.gpu_uuid AS is_own, m.gpu_model,
        m.sm_clock_mhz, m.memory_clock_mhz, m.power_limit_w
    FROM suspect AS i
    JOIN gpu_minute AS m
        ON i.cluster = m.cluster AND m.mig_instance = ''
        AND m.minute_ts BETWEEN date_trunc('minute', i.start_ts) AND i.end_ts
    WHERE m.gpu_uuid = i.gpu_uuid
        OR (i.incident_id, m.gpu_uuid) IN (SELECT (incident_id, gpu_uuid) FROM job_gpu)
        OR (m.node = i.node AND i.incident_id NOT IN (SELECT incident_id FROM job_gpu))
),

peer AS (
    SELECT
        incident_id, minute_ts, gpu_model,
        median(sm_clock_mhz) AS sm_clock_mhz,
        median(memory_clock_mhz) AS memory_clock_mhz,
        median(power_limit_w) AS power_limit_w
    FROM minute
    WHERE NOT is_own
    GROUP BY ALL
),

clock AS (
    SELECT
        incident_id,
        median(o.sm_clock_mhz / nullif(p.sm_clock_mhz, 0)) AS sm_ratio,
        avg(o.sm_clock_mhz / nullif(p.sm_clock_mhz, 0)) AS sm_mean_ratio,
        median(o.memory_clock_mhz / nullif(p.memory_clock_mhz, 0)) AS memory_ratio,
        median(o.sm_clock_mhz) AS sm_clock_mhz,
        median(p.sm_clock_mhz) AS peer_sm_clock_mhz,
        median(o.power_limit_w) AS power_limit_w,
        median(p.power_limit_w) AS peer_power_limit_w,
        median(o.power_limit_w / nullif(p.power_limit_w, 0)) AS power_limit_ratio,
        count(*) AS minute_count
    FROM minute AS o
    JOIN peer AS p USING (incident_id, minute_ts, gpu_model)
    WHERE o.is_own
    GROUP BY ALL
),

heard AS (
    SELECT
        i.incident_id,
        count(*) FILTER (m.minute_ts < i.start_ts AND sample_count > 0) AS before_count,
        max(m.minute_ts) FILTER (sample_count > 0) AS last_ts
    FROM suspect AS i
    JOIN gpu_minute AS m
        ON i.cluster = m.cluster AND i.gpu_uuid = m.gpu_uuid
        AND m.minute_ts BETWEEN i.start_ts - INTERVAL 1 HOUR AND i.end_ts
    WHERE i.kind = 'hang'
    GROUP BY ALL
),

-- What slows a GPU shows in its clock: where that is known, throttling costs at most what it lost.
throttle AS (
    SELECT
        incident_id, 'throttle' AS evidence_kind,
        arg_max(cause, (size, cause)) FILTER (is_felt) AS cause,
        max(least(size, 1 - sm_mean_ratio)) FILTER (is_felt) AS lost_share,
        to_json(list(
            {'cause': cause, 'throttled_ratio': round(throttled_ratio, 4),
             'peer_ratio': round(peer_ratio, 4), 'sm_ratio': round(sm_mean_ratio, 4)}
            ORDER BY cause
        ))::VARCHAR AS figures
    FROM (
        SELECT *,
            size >= getvariable('min_throttled_ratio')
                AND coalesce(sm_mean_ratio < getvariable('max_clock_ratio'), true) AS is_felt
        FROM excess
        LEFT JOIN clock USING (incident_id)
    )
    GROUP BY ALL
),

clocks AS (
    SELECT
        incident_id, 'clock' AS evidence_kind,
        CASE
            WHEN sm_ratio < getvariable('max_clock_ratio') THEN 'clock_deficit'
            WHEN memory_ratio < getvariable('max_clock_ratio') THEN 'hbm_slow'
        END AS cause,
        1 - least(sm_ratio, memory_ratio) AS lost_share,
        json_object(
            'sm_clock_mhz', round(sm_clock_mhz, 1), 'peer_sm_clock_mhz', round(peer_sm_clock_mhz, 1),
            'sm_ratio', round(sm_ratio, 4), 'memory_ratio', round(memory_ratio, 4),
            'minute_count', minute_count
        )::VARCHAR AS figures
    FROM clock
    WHERE sm_ratio IS NOT NULL OR memory_ratio IS NOT NULL
),

power_limit AS (
    SELECT
        incident_id, 'power_limit' AS evidence_kind,
        if(power_limit_ratio < getvariable('max_power_limit_ratio'), 'power_cap', NULL) AS cause,
        NULL::DOUBLE AS lost_share,
        json_object('power_limit_w', power_limit_w, 'peer_power_limit_w', peer_power_limit_w)::VARCHAR
            AS figures
    FROM clock
    WHERE power_limit_ratio IS NOT NULL
),

lasting AS (
    SELECT
        i.incident_id, signal,
        count(*) FILTER (is_lasting) AS window_count,
        median(harm) FILTER (is_lasting) AS harm
    FROM suspect AS i
    JOIN gpu_deviation_5min AS v
        ON i.cluster = v.cluster AND i.gpu_uuid = v.gpu_uuid
        AND v.window_ts BETWEEN i.start_ts - INTERVAL 5 MINUTE AND i.end_ts
    WHERE signal IN ('sm_clock_mhz', 'memory_clock_mhz', 'dram_per_tensor_s')
    GROUP BY ALL
),

deviation AS (
    SELECT
        incident_id, 'deviation' AS evidence_kind,
        arg_max(
            if(signal = 'sm_clock_mhz', 'clock_deficit', 'hbm_slow'), (window_count, signal)
        ) FILTER (window_count > 0) AS cause,
        -- Work that takes 1 + harm times as long loses harm / (1 + harm); a clock lower by harm loses harm.
        arg_max(
            if(signal = 'dram_per_tensor_s', harm / (1 + harm), harm), (window_count, signal)
        ) FILTER (window_count > 0) AS lost_share,
        to_json(list(
            {'signal': signal, 'lasting_window_count': window_count, 'harm': round(harm, 4)}
            ORDER BY signal
        ))::VARCHAR AS figures
    FROM lasting
    GROUP BY ALL
),

memory AS (
    SELECT
        incident_id, 'gpu_memory' AS evidence_kind,
        if(
            ecc_dbe_new_count > 0 OR ecc_sbe_high_hour_count > 0 OR row_remap_new_count > 0
                OR row_remap_failed = 1 OR row_remap_pending = 1 OR retired_page_new_count > 0,
            'hbm_slow', NULL
        ) AS cause,
        NULL::DOUBLE AS lost_share,
        json_object(
            'ecc_dbe_new_count', ecc_dbe_new_count, 'ecc_sbe_new_count', ecc_sbe_new_count,
            'row_remap_new_count', row_remap_new_count, 'row_remap_pending', row_remap_pending,
            'row_remap_failed', row_remap_failed, 'retired_page_new_count', retired_page_new_count
        )::VARCHAR AS figures
    FROM suspect
    JOIN gpu_memory_health_day USING (cluster, gpu_uuid, day_ts)
    WHERE coalesce(
        ecc_dbe_new_count, ecc_sbe_new_count, row_remap_new_count, row_remap_pending,
        row_remap_failed, retired_page_new_count
    ) IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY cause, figures) = 1
),

link AS (
    SELECT
        incident_id, 'gpu_link' AS evidence_kind,
        CASE
            WHEN nvlink_lost_reading_count > 0 AND nvlink_lost_start_ts <= end_ts
                AND nvlink_lost_end_ts >= start_ts THEN 'nvlink_width'
            WHEN pcie_degraded_ts IS NOT NULL AND pcie_degraded_start_ts <= end_ts
                AND pcie_degraded_end_ts >= start_ts THEN 'pcie_degraded'
        END AS cause,
        NULL::DOUBLE AS lost_share,
        json_object(
            'nvlink_up_min_count', nvlink_up_min_count, 'nvlink_expected_count', nvlink_expected_count,
            'nvlink_crc_new_count', nvlink_crc_new_count,
            'pcie_width_lanes', pcie_width_lanes,
            'pcie_width_expected_lanes', pcie_width_expected_lanes,
            'pcie_slow_minute_count', pcie_slow_minute_count,
            'pcie_replay_new_count', pcie_replay_new_count
        )::VARCHAR AS figures
    FROM suspect
    JOIN gpu_link_day USING (cluster, gpu_uuid, day_ts)
    WHERE pcie_width_minute_count > 0 OR nvlink_reading_count > 0
    QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY cause, figures) = 1
),

loss AS (
    SELECT
        incident_id, 'telemetry_loss' AS evidence_kind,
        if(
            last_ts < end_ts - to_seconds(getvariable('min_silent_s')) AND before_count > 0,
            'dead_gpu', NULL
        ) AS cause,
        NULL::DOUBLE AS lost_share,
        json_object('last_sample_ts', last_ts, 'minutes_before', before_count)::VARCHAR AS figures
    FROM heard
    JOIN suspect USING (incident_id)
    WHERE before_count > 0
),

said AS (
    SELECT * FROM throttle
    UNION ALL SELECT * FROM clocks
    UNION ALL SELECT * FROM deviation
    UNION ALL SELECT * FROM power_limit
    UNION ALL SELECT * FROM memory
    UNION ALL SELECT * FROM link
    UNION ALL SELECT * FROM loss
),

asked AS (
    SELECT
        incident_id, day_ts, 1 - 1 / effect_ratio AS effect_share,
        unnest(if(
            kind = 'hang',
            ['throttle', 'clock', 'deviation', 'power_limit', 'gpu_memory', 'gpu_link',
             'telemetry_loss'],
            ['throttle', 'clock', 'deviation', 'power_limit', 'gpu_memory', 'gpu_link']
        )) AS evidence_kind
    FROM incident
)

SELECT
    incident_id, day_ts, evidence_kind, cause,
    figures IS NOT NULL AS is_known,
    cause IS NOT NULL AS is_found,
    if(cause IS NULL, NULL, coalesce(least(1, lost_share / nullif(effect_share, 0)), 1))
        AS explained_ratio,
    figures
FROM asked
LEFT JOIN said USING (incident_id, evidence_kind)
