/*
title = "A GPU's NVLinks have errors that retries do not hide"
domain = "performance"
kind = "nvlink_errors"
severity = "low"
reviewed = "2026-11-30"
optional = ["gpu_link_sample", "inventory_gpu"]

flags = """
A GPU with an NVLink recovery, 100 CRC errors a second over a minute, or a bit error rate above 1e-12 after
correction: the limits at which DCGM's health check fails a link. `low` for few minutes of a day; `medium`
from ten minutes on, when a recovery failed, or when the error rate after correction is too high. One finding
per GPU and day.
"""
why = """
A recovery retrains the link and stops traffic meanwhile; links that need it often are the ones that go down
next (nvlink_width).
"""
looks_like = """
A GPU reset retrains links and may count a recovery. Single CRC errors and retries are normal, and one
operator of a large H100 cluster found NVLink errors not to matter for training: hence `low`.
"""
misses = """
Errors on the switch side. Which of the links it is: see gpu_link_sample. Counters that restart between two
samples. Slow links without errors.
"""
todo = """
See which link has the errors and what is at its other end; several GPUs of a node with the same switch port
point to the switch. Reset when idle, watch whether it returns.
"""

[params.medium_minutes]
default = 10
doc = "count of minutes with such errors from which severity is medium. Own choice."

[needs]
gpu_link_day = "nvlink_error_minute_count IS NOT NULL"
*/
SELECT
    concat_ws('/', cluster, gpu_uuid, day_ts::DATE) AS subject,
    1 - 1 / (1 + nvlink_error_minute_count) AS score,
    if(
        nvlink_error_minute_count >= getvariable('medium_minutes')
        OR nvlink_recovery_failed_new_count > 0 OR nvlink_effective_ber_ratio > 1e-12,
        'medium', 'low'
    ) AS severity,
    nvlink_error_start_ts AS start_ts,
    nvlink_error_end_ts AS end_ts,
    nvlink_error_start_ts + INTERVAL 1 MINUTE - INTERVAL 1 MICROSECOND AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    nvlink_error_minute_count AS lower,
    nvlink_error_minute_count AS upper,
    json_object(
        'quantity', 'minutes with such errors',
        'recovery_new_count', nvlink_recovery_new_count,
        'recovery_failed_new_count', nvlink_recovery_failed_new_count,
        'crc_new_count', nvlink_crc_new_count,
        'crc_most_per_min_count', nvlink_crc_most_per_min_count,
        'replay_new_count', nvlink_replay_new_count,
        'effective_ber_ratio', nvlink_effective_ber_ratio,
        'gpu_model', gpu_model,
        'coverage_ratio', round(coverage_ratio, 4)
    )::VARCHAR AS evidence
FROM gpu_link_day
WHERE nvlink_error_minute_count > 0
