/*
title = "A GPU's PCIe link is narrower or slower than it should be"
domain = "performance"
kind = "pcie_degraded"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A GPU that spent ten minutes of a day with fewer PCIe lanes than expected, or busy and below the expected
generation (gpu_link_day says what is expected). `high` at half the lanes or fewer. Reported on the first day;
again when lanes or generation fall further.
"""
why = """
Copies between host and GPU, and on many servers the traffic to the network card, take twice as long at half
the lanes. Nothing else reports it: x16 to x8 after maintenance is the field's standing example.
"""
looks_like = """
An idle link: it drops its generation to save power and is not judged. A server built with x8 slots or an
older host: where most GPUs of the model have it, it is expected. A GPU alone of its model in such a server
looks degraded.
"""
misses = """
A fleet of which most GPUs of a model are degraded in the same way. Links of full width and generation that
lose data: see retries and correctable errors in gpu_link_day. Slow generation on GPUs that are never busy for
half of a minute. Exporters that give no link width or generation. Links of network cards.
"""
todo = """
Reseat the GPU or riser, look at the slot's settings in the BIOS, compare with the same slot of other nodes; a
second degradation after reseating points to board or riser. Until then do not give the node jobs that load
data over PCIe.
"""
lookback = "7d"
optional = ["gpu_link_sample", "inventory_gpu"]

[params.high_lanes_ratio]
default = 0.5
doc = "ratio of the expected lanes from which severity is high. Own choice: half the rate."

[needs]
gpu_link_day = "pcie_narrow_minute_count IS NOT NULL OR pcie_slow_minute_count IS NOT NULL"
*/
WITH state AS (
    SELECT
        *,
        coalesce(if(pcie_narrow_minute_count > 0, pcie_width_lanes / pcie_width_expected_lanes, NULL), 1) AS lanes_ratio,
        coalesce(if(pcie_slow_minute_count > 0, pcie_gen_busy / pcie_gen_expected, NULL), 1) AS gen_ratio
    FROM gpu_link_day
    WHERE pcie_narrow_minute_count IS NOT NULL OR pcie_slow_minute_count IS NOT NULL
),
compared AS (
    SELECT
        *,
        lag(if(pcie_degraded_ts IS NULL, 1, lanes_ratio)) OVER gpu AS last_lanes_ratio,
        lag(if(pcie_degraded_ts IS NULL, 1, gen_ratio)) OVER gpu AS last_gen_ratio
    FROM state
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid ORDER BY day_ts)
)
SELECT
    concat_ws('/', cluster, gpu_uuid, day_ts::DATE) AS subject,
    1 - least(lanes_ratio, gen_ratio) AS score,
    if(lanes_ratio <= getvariable('high_lanes_ratio'), 'high', 'medium') AS severity,
    pcie_degraded_start_ts AS start_ts,
    pcie_degraded_end_ts AS end_ts,
    least(pcie_degraded_ts, day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    least(lanes_ratio, gen_ratio) AS lower,
    least(lanes_ratio, gen_ratio) AS upper,
    json_object(
        'quantity', 'lanes or generation of what is expected, the worse of the two',
        'lanes', pcie_width_lanes,
        'lanes_expected', pcie_width_expected_lanes,
        'narrow_minute_count', pcie_narrow_minute_count,
        'width_minute_count', pcie_width_minute_count,
        'generation_busy', pcie_gen_busy,
        'generation_expected', pcie_gen_expected,
        'slow_minute_count', pcie_slow_minute_count,
        'busy_minute_count', pcie_busy_minute_count,
        'replay_new_count', pcie_replay_new_count,
        'gpu_model', gpu_model,
        'coverage_ratio', round(coverage_ratio, 4)
    )::VARCHAR AS evidence
FROM compared
WHERE pcie_degraded_ts IS NOT NULL
    AND (lanes_ratio < coalesce(last_lanes_ratio, 1) OR gen_ratio < coalesce(last_gen_ratio, 1))
