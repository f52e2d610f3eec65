/*
doc = """
Events of the kernel log with their repeats collapsed: one row per node, event, code, GPU (or switch, or
port) and burst. Lines of one kind that follow each other within burst_gap_s are one burst, cut at
midnight (is_continuation marks the part that goes on). XID 45, the clean-up after another error that
storms over every channel of every GPU, is one row per node and minute.

A line that repeats, word by word, one of another file is taken for its copy, and joins the burst before it,
for up to copy_window_s: the stamps of dmesg drift from those of syslog.

event_count_lower and event_count_upper bound how often it happened. Logs overlap (dmesg and syslog, a
file and its rotation) with differing stamps, so the lower bound is the most that one file holds, the
upper bound the sum over files. A GPU off the bus is told by an XID 79 and by a line without code: one
event. A port's loss told of its RDMA device too is one (link_copy). Where the log says that lines are missing, the upper bound includes them: `printing 1 of every n`
makes each later XID 119 of that GPU stand for up to n, `n callbacks suppressed` adds n to every burst
near it. NULL: unknown how many are missing.
"""
grain = ["cluster", "node", "start_ts", "event", "code", "unit", "severity_text"]
time = "start_ts"
lookback = "1d"
sort = ["cluster", "node", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name in the kernel log" }
event = { type = "VARCHAR", doc = "xid, sxid, link_down, pcie_limited; of amdgpu ras_error, gpu_reset, gpu_reset_failed" }
code = { type = "INTEGER", doc = "xid or sxid code; 0 for events without" }
unit = { type = "VARCHAR", doc = "PCI address of the GPU or switch, name of the port; empty: several GPUs (XID 45) or not said" }
severity_text = { type = "VARCHAR", doc = "fatal or non_fatal, of ras_error correctable, uncorrectable or deferred, where the lines say so; else empty" }
pci_bus_id = { type = "VARCHAR", doc = "PCI address; NULL where several or not said" }
start_ts = { type = "TIMESTAMP", doc = "first line" }
end_ts = { type = "TIMESTAMP", doc = "last line", null = false }
ts_precision_s = { type = "DOUBLE", doc = "how finely the first stamp tells the time", unit = "s", null = false }
is_continuation = { type = "BOOLEAN", doc = "the burst had begun the day before", null = false }
line_count = { type = "BIGINT", doc = "lines in the store, over all files", unit = "count", null = false }
event_count_lower = { type = "BIGINT", doc = "it happened at least so often", unit = "count", null = false }
event_count_upper = { type = "BIGINT", doc = "it happened at most so often; NULL: unknown", unit = "count" }
gpu_count = { type = "BIGINT", doc = "addresses the lines name", unit = "count", null = false }
pids = { type = "BIGINT[]", doc = "processes the lines name, victims not culprits; 20 at most", null = false }
processes = { type = "VARCHAR[]", doc = "names of those processes; 20 at most", null = false }
gpu_units = { type = "VARCHAR[]", doc = "units of the GPU the lines name, as `GPC 0 TPC 1`", null = false }
recovery_action = { type = "INTEGER", doc = "XID 154: what the driver asks for from then on, coded as gpu_sample.recovery_action", unit = "code" }
message = { type = "VARCHAR", doc = "the first line's message", null = false }

[params.copy_window_s]
default = 900
doc = "s; dmesg counts time from boot and drifts by seconds to minutes over weeks. Own choice."

[params.burst_gap_s]
default = 300
doc = "s; lines of one kind further apart are two bursts. With 1 of 30 prints and 6 s per timeout the real XID 119 lines of the sample come 181 s apart; NVSentinel's burst window is 180 s."
*/
WITH line AS (
    SELECT
        cluster, node, ts, ts_precision_s, message, pid, process, pci_bus_id, file_id, line_no,
        event_count * coalesce(error_count, 1) AS event_count,
        if(event = 'fallen_off_bus', 'xid', event) AS event,
        coalesce(xid_code, sxid_code, if(event = 'fallen_off_bus', 79, 0)) AS code,
        coalesce(severity, '') AS severity_text,
        -- Several programs report one loss of a link in words of their own.
        if(event = 'link_down', regexp_replace(message, '[0-9]+', '', 'g'), event) AS form,
        coalesce(xid_code = 45, false) AS is_cleanup,
        CASE
            WHEN is_cleanup THEN ''
            WHEN event = 'link_down' THEN coalesce(device, pci_bus_id, '')
            ELSE coalesce(pci_bus_id, device, '')
        END AS unit,
        if(is_cleanup, date_trunc('minute', ts), date_trunc('day', ts))::TIMESTAMP AS period_ts
    FROM gpu_event
    ANTI JOIN link_copy USING (cluster, node, ts, message, repeat_no)
    WHERE event IN (
        'xid', 'sxid', 'fallen_off_bus', 'link_down', 'pcie_limited', 'ras_error', 'gpu_reset', 'gpu_reset_failed'
    )
),
thinned AS (
    SELECT cluster, node, pci_bus_id, ts, printed_one_of_count
    FROM gpu_event
    WHERE event = 'rate_limited' AND printed_one_of_count > 1 AND pci_bus_id IS NOT NULL
),
weighed AS (
    -- How many events a line may stand for.
    SELECT
        line.*,
        if(
            code = 119 AND line.ts - thinned.ts <= INTERVAL 1 DAY, printed_one_of_count, 1
        ) AS one_of
    FROM line
    ASOF LEFT JOIN thinned
        ON line.cluster = thinned.cluster AND line.node = thinned.node
        AND line.pci_bus_id = thinned.pci_bus_id AND line.ts >= thinned.ts
),
compared AS (
    SELECT
        *,
        coalesce(
            lag(file_id) OVER wording != file_id
            AND ts - lag(ts) OVER wording <= to_seconds(getvariable('copy_window_s')), false
        ) AS is_copy
    FROM weighed
    WINDOW wording AS (PARTITION BY cluster, node, message ORDER BY ts, file_id, line_no)
),
marked AS (
    SELECT
        *,
        NOT is_copy
            AND coalesce(ts - lag(ts) OVER kind > to_seconds(getvariable('burst_gap_s')), true) AS is_first,
        coalesce(
            NOT is_cleanup
            AND lag(ts) OVER kind < date_trunc('day', ts)
            AND ts - lag(ts) OVER kind <= to_seconds(getvariable('burst_gap_s')), false
        ) AS is_carried
    FROM compared
    WINDOW kind AS (PARTITION BY cluster, node, event, code, severity_text, unit ORDER BY ts, line_no, file_id)
),
numbered AS (
    SELECT
        *,
        if(is_cleanup, 0, count(*) FILTER (is_first) OVER (
            PARTITION BY cluster, node, event, code, severity_text, unit, period_ts
            ORDER BY ts, line_no, file_id
        )) AS burst_no
    FROM marked
),
counted AS (
    -- What each file holds of a burst, and of what it holds the most common way to say it.
    SELECT
        cluster, node, event, code, severity_text, unit, period_ts, burst_no, file_id,
        max(form_count) AS file_count,
        max(form_upper) AS file_upper
    FROM (
        SELECT
            cluster, node, event, code, severity_text, unit, period_ts, burst_no, file_id, form,
            sum(event_count) AS form_count,
            sum(event_count * one_of) + max(one_of) - 1 AS form_upper
        FROM numbered
        GROUP BY ALL
    )
    GROUP BY ALL
),
bounded AS (
    SELECT
        cluster, node, event, code, severity_text, unit, period_ts, burst_no,
        max(file_count)::BIGINT AS event_count_lower,
        sum(file_upper)::BIGINT AS event_count_upper
    FROM counted
    GROUP BY ALL
),
burst AS (
    SELECT
        cluster, node, event, code, severity_text, unit, period_ts, burst_no,
        if(count(DISTINCT pci_bus_id) = 1, any_value(pci_bus_id), NULL) AS pci_bus_id,
        min(ts) AS start_ts,
        max(ts) AS end_ts,
        arg_min(ts_precision_s, ts) AS ts_precision_s,
        bool_or(is_carried) AS is_continuation,
        count(*) AS line_count,
        count(DISTINCT pci_bus_id) AS gpu_count,
        coalesce(list_sort(list(DISTINCT pid) FILTER (pid IS NOT NULL))[:20], []) AS pids,
        coalesce(list_sort(list(DISTINCT process) FILTER (process IS NOT NULL))[:20], []) AS processes,
        list_sort(list_distinct(flatten(list(list_transform(
            regexp_extract_all(message, 'GPC \d+,? TPC \d+'), lambda found: replace(found, ',', '')
        ))))) AS gpu_units,
        arg_max(
            ('0x' || nullif(regexp_extract(message, 'changed from .* to 0x([0-9a-fA-F]{1,4})', 1), ''))::INTEGER,
            (ts, line_no)
        ) FILTER (code = 154 AND event = 'xid') AS recovery_action,
        arg_min(message, (ts, line_no, file_id)) AS message
    FROM numbered
    GROUP BY ALL
),
missing AS (
    -- Lines of the node that were never written, near a burst.
    SELECT
        burst.cluster, burst.node, event, code, severity_text, unit, period_ts, burst_no,
        sum(suppressed_count)::BIGINT AS suppressed_count,
        count(*) > count(suppressed_count) AS is_unknown
    FROM burst
    JOIN (
        SELECT cluster, node, ts, suppressed_count
        FROM gpu_event
        WHERE event = 'rate_limited' AND printed_one_of_count IS NULL
    ) AS notice
        ON burst.cluster = notice.cluster AND burst.node = notice.node
        AND notice.ts::DATE = start_ts::DATE
        AND notice.ts BETWEEN start_ts - to_seconds(getvariable('burst_gap_s'))
            AND end_ts + to_seconds(getvariable('burst_gap_s'))
    GROUP BY ALL
)
SELECT
    cluster, node, event, code, unit, severity_text, pci_bus_id, start_ts, end_ts, ts_precision_s,
    coalesce(is_continuation, false) AS is_continuation,
    line_count, event_count_lower,
    if(is_unknown, NULL, event_count_upper + coalesce(suppressed_count, 0)) AS event_count_upper,
    gpu_count, pids, processes, gpu_units, recovery_action, message
FROM burst
JOIN bounded USING (cluster, node, event, code, severity_text, unit, period_ts, burst_no)
LEFT JOIN missing USING (cluster, node, event, code, severity_text, unit, period_ts, burst_no)
