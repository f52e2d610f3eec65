/*
doc = """
How far each GPU is from its usual place among its peers, and whether that lasts. deviation is the residual less what is
usual for this GPU; harm is the deviation in the direction that costs work.

It lasts when over the last sustain_s the mean harm exceeds the limit, the GPU is behind the median of its peers as well
(both witnesses agree), and most of the windows show it. The limit is the GPU's own, or what the job as a whole shows at
this time, if that is more: when everything moves (a power cap that hits weak chips harder, a change of phase), a single
GPU has to stand out of that. companion_count is how many other GPUs of the job are over their limit too: a fault hits
one or two, a change of the work or of the room hits many.

A clock below its usual counts only if the GPU does not draw more power than its peers at its power limit: there a leaky
chip runs slower than others, as it should. Power and work done are judged only while the job does about what it did in the GPU's history: a chip that needs less
power than others shows it only while no limit binds.
"""
grain = ["cluster", "node", "gpu_uuid", "signal", "window_ts"]
time = "window_ts"
lookback = "2h"
sort = ["signal", "node", "gpu_uuid", "window_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
signal = { type = "VARCHAR", doc = "column of gpu_job_5min" }
window_ts = { type = "TIMESTAMP", doc = "start of the five minutes" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of it", unit = "s" }
witness = { type = "VARCHAR", doc = "where usual comes from: job, elsewhere or peers" }
peer_count = { type = "BIGINT", doc = "peers that have the signal", unit = "count" }
job_gpu_count = { type = "BIGINT", doc = "GPUs of the job compared in this window", unit = "count" }
deviation = { type = "DOUBLE", doc = "residual less usual", unit = "ratio" }
harm = { type = "DOUBLE", doc = "the deviation in the direction that costs work, negative in the other", unit = "ratio" }
span_harm = { type = "DOUBLE", doc = "mean harm over the last sustain_s, this window the last; single windows count at most three times the GPU's own limit", unit = "ratio" }
limit_ratio = { type = "DOUBLE", doc = "what span_harm has to exceed", unit = "ratio" }
noise = { type = "DOUBLE", doc = "gpu_usual_hour.noise", unit = "ratio" }
detectable_ratio = { type = "DOUBLE", doc = "smallest lasting deviation that would be found, with this limit", unit = "ratio" }
is_beyond = { type = "BOOLEAN", doc = "harm exceeds half of the limit in this window" }
is_lasting = { type = "BOOLEAN", doc = "the conditions above hold" }
lasting_since_ts = { type = "TIMESTAMP", doc = "start of the first window of the span that is beyond; NULL unless lasting" }
companion_count = { type = "BIGINT", doc = "other GPUs of the job whose span_harm exceeds their limit", unit = "count" }

[params.sustain_s]
default = 2400
most = 6900
doc = "s; the span looked at. 40 minutes find a change within the hour."
[params.min_windows]
default = 6
doc = "count; windows of the span that must have been compared."
[params.min_beyond_ratio]
default = 0.80
doc = "ratio of them that must be beyond half of the limit. A checkpoint, a straggling step or a restart stays below."
[params.max_limited_power_ratio]
default = 0.03
doc = "ratio; residual of power above which a GPU at its power limit is slow for that reason. A chip that loses 3 % of its clock to a fault draws about 6 % less than before."
[params.max_level_change_ratio]
default = 0.10
doc = "ratio; how far the peers' power or work may be from their level in the history. Own choice."
[params.min_peer_share]
default = 0.5
doc = "ratio of the limit by which the GPU must also be behind its peers. A GPU that only returns to the median, as after a cap in which it did better than others, is not slow. Own choice."
[params.scatter_factor]
default = 5.0
doc = "harm must exceed this many times the job's scatter now (1.4826 times the median size of all its GPUs' span_harm, which for normal noise is the standard deviation). Own choice."
*/
WITH limited_power AS (
    -- What a GPU draws beyond its peers at its power limit. Where neither bit nor limit is known it may be there.
    SELECT
        cluster, node, gpu_uuid, window_ts,
        if(
            CASE
                WHEN throttle_mask IS NOT NULL THEN throttle_mask & 4 <> 0
                WHEN power_limit_w IS NOT NULL THEN power_w >= 0.9 * power_limit_w
                ELSE true
            END,
            residual, 0
        ) AS limited_power
    FROM gpu_residual_5min
    JOIN gpu_job_5min USING (cluster, node, gpu_uuid, window_ts)
    WHERE signal = 'power_w'
),
deviated AS (
    SELECT
        r.cluster, r.node, r.gpu_uuid, signal, r.window_ts, job_id, attempt, witness, r.peer_count, noise,
        residual - usual AS deviation,
        bad_sign * (residual - usual) AS harm,
        bad_sign * residual AS behind_peers,
        if(signal = 'sm_clock_mhz', limited_power, NULL) AS limited_power,
        u.limit_ratio AS own_limit_ratio,
        u.detectable_ratio - u.limit_ratio AS margin_ratio
    FROM gpu_residual_5min r
    JOIN gpu_usual_hour u USING (cluster, node, gpu_uuid, job_id, attempt, signal)
    LEFT JOIN limited_power p ON p.cluster = r.cluster AND p.node = r.node AND p.gpu_uuid = r.gpu_uuid
        AND p.window_ts = r.window_ts
    WHERE u.hour_ts = date_trunc('hour', r.window_ts) AND witness IS NOT NULL
        AND (
            signal NOT IN ('power_w', 'tensor_rate_mhz')
            OR abs(peer_value / usual_peer_value - 1) <= getvariable('max_level_change_ratio')
        )
),
spanned AS (
    SELECT
        *,
        round(avg(greatest(-3 * own_limit_ratio, least(3 * own_limit_ratio, harm))) OVER span, 9) AS span_harm,
        round(avg(behind_peers) OVER span, 9) AS span_behind_peers,
        coalesce(round(avg(limited_power) OVER span, 9), 0) AS span_limited_power
    FROM deviated
    WINDOW span AS (
        PARTITION BY cluster, node, gpu_uuid, signal, job_id, attempt ORDER BY window_ts
        RANGE BETWEEN to_seconds(getvariable('sustain_s') - 300) PRECEDING AND CURRENT ROW
    )
),
job_window AS (
    SELECT
        cluster, job_id, attempt, signal, window_ts, count(*) AS job_gpu_count,
        1.4826 * median(abs(span_harm)) AS scatter
    FROM spanned
    GROUP BY ALL
),
limited AS (
    SELECT
        *,
        greatest(own_limit_ratio, getvariable('scatter_factor') * scatter) AS limit_ratio,
        harm > 0.5 * limit_ratio AS is_beyond,
        span_harm > limit_ratio
            AND span_behind_peers > getvariable('min_peer_share') * limit_ratio
            AND span_limited_power <= getvariable('max_limited_power_ratio') AS is_over
    FROM spanned
    JOIN job_window USING (cluster, job_id, attempt, signal, window_ts)
),
rolled AS (
    SELECT
        *,
        count(*) OVER span >= getvariable('min_windows')
            AND is_over
            AND count(*) FILTER (is_beyond) OVER span >= getvariable('min_beyond_ratio') * count(*) OVER span
            AS is_lasting,
        min(window_ts) FILTER (is_beyond) OVER span AS since_ts
    FROM limited
    WINDOW span AS (
        PARTITION BY cluster, node, gpu_uuid, signal, job_id, attempt ORDER BY window_ts
        RANGE BETWEEN to_seconds(getvariable('sustain_s') - 300) PRECEDING AND CURRENT ROW
    )
)
SELECT
    cluster, node, gpu_uuid, signal, window_ts, job_id, attempt, witness, peer_count, job_gpu_count,
    deviation, harm, span_harm, limit_ratio, noise, limit_ratio + margin_ratio AS detectable_ratio,
    is_beyond, is_lasting,
    if(is_lasting, since_ts, NULL) AS lasting_since_ts,
    count(*) FILTER (is_over) OVER (PARTITION BY cluster, job_id, attempt, signal, window_ts)
        - is_over::INTEGER AS companion_count
FROM rolled
