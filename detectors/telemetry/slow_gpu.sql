/*
title = "One GPU falls behind its peers and its own past, whether or not a throttle bit is set"
domain = "performance"
kind = "slow_gpu"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A GPU whose reading leaves its usual place among the GPUs of its model in the same job, for most of 40 minutes, while at
most two others (or 1 % of the job) do. One finding per GPU and day. kind: clock_deficit (multiprocessor clock low),
hbm_slow (memory clock low, or the memory busy for longer over the same work), slow_gpu (compute time per step high, or work done or
power low at a normal clock). lower and upper bound the loss that the evidence names as `quantity`; lost hours are at most
what it costs, if the work was bound by that quantity and, for the job, if all its GPUs waited. high from a tenth on.
"""
why = """
In synchronous training all GPUs wait for the slowest in every step. The failures that cost most set no bit and print no
XID: a part that runs a few percent below its neighbours taxes every GPU of the job by as much until somebody looks.
"""
looks_like = """
A power limit, clock limit or power profile set for one GPU on purpose. Uneven work that moves onto one GPU in the middle
of a job: an expert that becomes unpopular, a rank that starts to log or evaluate; then power and work done fall together
and the clock does not. A hot spot in the rack. A profiler on one rank.
"""
misses = """
What all peers share: a fleet-wide cap, a slow job, a bad driver or firmware on every node, a defect of half the job's
GPUs or more, and more than two GPUs (1 % of the job) that change together, such as a chassis on one power supply. Jobs
with fewer than four GPUs of a model, nodes shared by several jobs, MIG, GPUs without a scheduler record. The first 15
minutes of an attempt, pauses and idle GPUs. A GPU that was slow before its job began and hides it in signals other
than the clock: activity and power have no history outside the job; a clock that was low all along is flagged only
beyond twice the limit and five times the peers' spread. A fault older than half of the seven days of history, once
it has become usual. A chip that is leakier than its peers and loses clock while it draws more than they do at its power
limit. A clock that is read as normal while the chip computes slower: in a synchronous job all do the same work
per second, so only step records (compute_s) or power show it. Changes smaller than gpu_deviation_day's detectable
ratios, or shorter than about half an hour.
"""
todo = """
Read the deviations in the evidence: clock and power low with tensor activity high is a slow chip that works all the
time while others wait; clock normal and power low points below the driver (power delivery, a stuck power state); memory
time per work high points to memory. Look for throttle bits, power limit, temperature against the neighbours.
Then move the job off the GPU and see whether the loss moves with it, reset it or power-cycle the node, and run a
single-GPU benchmark.
"""

[params.max_companions]
default = 2
doc = "count; with more GPUs of the job moving at once nobody in particular is blamed. Own choice."
[params.min_indirect_windows]
default = 6
doc = "count; windows of the day in which a deviation of work done or power must last. Both move with the work as well, so they have to stay off for half an hour longer. Own choice."
[params.max_companion_ratio]
default = 0.01
doc = "ratio of the job's GPUs; the same for large jobs. Own choice."
[params.high_ratio]
default = 0.10
doc = "ratio lost from which severity is high. As in straggler_rank."
*/
WITH accused AS (
    SELECT
        *,
        window_ts::DATE AS day,
        row_number() OVER (
            PARTITION BY cluster, node, gpu_uuid, signal, window_ts::DATE ORDER BY window_ts
        ) >= if(signal IN ('tensor_rate_mhz', 'power_w'), getvariable('min_indirect_windows'), 1) AS is_enough,
        CASE signal
            WHEN 'sm_clock_mhz' THEN 1 WHEN 'memory_clock_mhz' THEN 2 WHEN 'dram_per_tensor_s' THEN 3
            WHEN 'compute_s' THEN 4 WHEN 'tensor_rate_mhz' THEN 5 ELSE 6
        END AS precedence
    FROM gpu_deviation_5min
    WHERE is_lasting
        AND companion_count <= greatest(
            getvariable('max_companions'), getvariable('max_companion_ratio') * job_gpu_count
        )
),
gpu_signal AS (
    SELECT
        cluster, node, gpu_uuid, day, signal, any_value(precedence) AS precedence, count(*) AS lasting_count,
        min(lasting_since_ts) AS start_ts,
        min(window_ts) FILTER (is_enough) + INTERVAL 5 MINUTE AS detected_at,
        max(window_ts) + INTERVAL 5 MINUTE AS end_ts
    FROM accused
    GROUP BY ALL
    HAVING bool_or(is_enough)
),
-- The signal nearest to a cause, of those that stayed off about as long as any.
gpu_day AS (
    SELECT *
    FROM (
        SELECT
            * REPLACE (min(detected_at) OVER gpu AS detected_at),
            lasting_count >= 0.5 * max(lasting_count) OVER gpu AS is_main
        FROM gpu_signal
        WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, day)
    )
    QUALIFY row_number() OVER (
        PARTITION BY cluster, node, gpu_uuid, day ORDER BY is_main DESC, precedence
    ) = 1
),
measured AS (
    SELECT
        g.cluster, g.node, g.gpu_uuid, g.day, any_value(g.signal) AS signal,
        any_value(g.start_ts) AS start_ts, any_value(g.detected_at) AS detected_at, any_value(g.end_ts) AS end_ts,
        list_sort(list(DISTINCT d.job_id)) AS jobs,
        max(d.attempt) AS attempt,
        max(job_gpu_count) AS job_gpu_count,
        min(peer_count) AS peer_count,
        min(witness) FILTER (main) AS witness,
        median(harm) FILTER (main AND is_beyond) AS loss,
        median(noise) FILTER (main) AS noise,
        median(limit_ratio) FILTER (main) AS limit_ratio,
        median(detectable_ratio) FILTER (main) AS detectable_ratio,
        count(*) FILTER (main) AS window_count,
        count(*) FILTER (main AND is_beyond) AS beyond_count,
        median(deviation) FILTER (d.signal = 'sm_clock_mhz') AS sm_clock,
        median(deviation) FILTER (d.signal = 'memory_clock_mhz') AS memory_clock,
        median(deviation) FILTER (d.signal = 'tensor_rate_mhz') AS tensor_rate,
        median(deviation) FILTER (d.signal = 'dram_per_tensor_s') AS dram_per_tensor,
        median(deviation) FILTER (d.signal = 'power_w') AS power,
        median(deviation) FILTER (d.signal = 'compute_s') AS compute
    FROM gpu_day g
    JOIN gpu_deviation_5min d
        ON d.cluster = g.cluster AND d.node = g.node AND d.gpu_uuid = g.gpu_uuid
        AND d.window_ts >= g.start_ts AND d.window_ts < g.end_ts AND d.window_ts::DATE = g.day,
    LATERAL (SELECT d.signal = g.signal AS main)
    GROUP BY ALL
),
context AS (
    SELECT
        m.cluster, m.node, m.gpu_uuid, m.day,
        bit_or(throttle_mask) AS throttle_mask, min(power_limit_w) AS power_limit_w, round(avg(gpu_temp_c), 1) AS gpu_temp_c
    FROM measured m
    JOIN gpu_job_5min j
        ON j.cluster = m.cluster AND j.node = m.node AND j.gpu_uuid = m.gpu_uuid
        AND window_ts >= start_ts AND window_ts < end_ts AND window_ts::DATE = m.day AND obstacle IS NULL
    GROUP BY ALL
)
SELECT
    concat_ws('/', cluster, gpu_uuid, day) AS subject,
    CASE
        WHEN signal = 'sm_clock_mhz' THEN 'clock_deficit'
        WHEN signal IN ('memory_clock_mhz', 'dram_per_tensor_s') THEN 'hbm_slow'
        ELSE 'slow_gpu'
    END AS kind,
    beyond_count / window_count AS score,
    if(loss >= getvariable('high_ratio'), 'high', 'medium') AS severity,
    start_ts,
    end_ts,
    least(detected_at, day + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    jobs AS job_id,
    loss - 1.96 * noise AS lower,
    loss + 1.96 * noise AS upper,
    json_object(
        'quantity', signal || ' against peers, less what is usual for this GPU',
        'loss_ratio', round(loss, 4),
        'limit_ratio', round(limit_ratio, 4),
        'detectable_ratio', round(detectable_ratio, 4),
        'noise_ratio', round(noise, 4),
        'witness', witness,
        'peer_count', peer_count,
        'window_count', window_count,
        'beyond_window_count', beyond_count,
        'sm_clock_deviation', round(sm_clock, 4),
        'memory_clock_deviation', round(memory_clock, 4),
        'tensor_rate_deviation', round(tensor_rate, 4),
        'dram_per_tensor_deviation', round(dram_per_tensor, 4),
        'power_deviation', round(power, 4),
        'compute_deviation', round(compute, 4),
        'throttle_mask', throttle_mask,
        'power_limit_w', power_limit_w,
        'gpu_temp_c', gpu_temp_c,
        'attempt', attempt,
        'job_gpu_count', job_gpu_count,
        'lost_gpu_h_at_most', round(lost_gpu_h, 3),
        'lost_job_gpu_h_at_most', round(lost_gpu_h * job_gpu_count, 3)
    )::VARCHAR AS evidence
FROM measured
LEFT JOIN context USING (cluster, node, gpu_uuid, day),
-- What takes longer by a ratio loses that part of the longer time. What low power costs is not known.
LATERAL (
    SELECT beyond_count / 12 * CASE
        WHEN signal IN ('compute_s', 'dram_per_tensor_s') THEN loss / (1 + loss)
        WHEN signal <> 'power_w' THEN loss
    END AS lost_gpu_h
)
