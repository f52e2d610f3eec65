/*
title = "A GPU has vanished from a node that is alive"
domain = "performance"
kind = "gpu_missing"
severity = "high"
reviewed = "2026-11-30"

flags = """
A GPU that the inventory places on a node and that has no sample for 10 minutes of an hour in which
other GPUs of that node have, later than 5 minutes after the node came back. One finding per GPU and day.
`lower` is the number of minutes missing that day, and `upper` adds those in which the whole node was
silent.
"""
why = """
A GPU that falls off the bus takes its telemetry along: no error shows, its series end, and averages
over the fleet look better than before. The job on it hangs or dies, the node stays in service with one
GPU too few. Exporters report no failure for it.
"""
looks_like = """
A GPU that was replaced, moved or lent without a word to the inventory (unlisted_count says how many
unknown GPUs the node shows). A GPU passed through to a virtual machine. An exporter set to watch some
GPUs only, or that lost some after its index range changed (dcgm-exporter issues 250, 569, 570). MIG in a
mode that drops the series of the whole GPU does not count as missing: its instances are seen.
"""
misses = """
Nodes with one GPU and nodes that vanish as a whole: they are silent, which is another question. GPUs
that the inventory does not list. Absences shorter than 10 minutes in an hour, or in the 5 minutes after
a start. GPUs that answer but do not work. Nothing is said of times at which nothing of the cluster was
collected.
"""
todo = """
Look for an XID 79 or `fallen off the bus` in gpu_event at missing_start; run `nvidia-smi -L` and `lspci`
on the node. Drain it; a cold start (power off) brings many of them back, and one that goes twice is to be
replaced. If the GPU was taken out on purpose, give its row in the inventory an end.
"""
*/
WITH gpu_day AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        any_value(gpu_index) AS gpu_index,
        any_value(gpu_model) AS gpu_model,
        sum(minute_missing_count)::BIGINT AS missing_count,
        sum(minute_silent_count)::BIGINT AS silent_count,
        sum(minute_seen_count)::BIGINT AS seen_count,
        sum(minute_expected_count)::BIGINT AS expected_count,
        max(unlisted_count) AS unlisted_count,
        min(missing_start_ts) AS start_ts,
        max(missing_end_ts) AS end_ts,
        min(missing_evident_ts) AS evident_ts
    FROM gpu_presence_hour
    GROUP BY ALL
)
SELECT
    concat_ws('/', cluster, node, gpu_uuid, day_ts::DATE) AS subject,
    missing_count / expected_count AS score,
    start_ts,
    end_ts,
    evident_ts AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    missing_count::DOUBLE AS lower,
    (missing_count + silent_count)::DOUBLE AS upper,
    json_object(
        'quantity', 'minutes missing',
        'gpu_index', gpu_index,
        'gpu_model', gpu_model,
        'missing_count', missing_count,
        'silent_count', silent_count,
        'seen_count', seen_count,
        'expected_count', expected_count,
        'missing_start', start_ts::VARCHAR,
        'unlisted_count', unlisted_count
    )::VARCHAR AS evidence
FROM gpu_day
WHERE evident_ts IS NOT NULL
