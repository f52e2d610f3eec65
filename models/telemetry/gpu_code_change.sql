/*
doc = """
Changes of the last-value signals of a GPU: its last XID and the recovery action the driver asks for.
One row where a sample shows another code than the last known one of the 24 hours before.

Such a signal stays as it is until the driver reloads, so only a change says that something happened,
some time after after_ts. The same code twice, and codes that came and went between two samples, do not
show: rows are a lower bound of events. A code that the first sample of 24 hours shows is from no known
time and gives no row. Absent is not zero: an exporter prints no series where there is no error, and a
sample without the code changes nothing.
"""
grain = ["cluster", "node", "gpu_uuid", "signal", "ts"]
time = "ts"
lookback = "1d"
sort = ["cluster", "node", "gpu_uuid", "ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
signal = { type = "VARCHAR", doc = "xid_code or recovery_action, as in gpu_sample" }
ts = { type = "TIMESTAMP", doc = "the sample that first shows the code" }
after_ts = { type = "TIMESTAMP", doc = "the sample before: the change lies between", null = false }
code = { type = "INTEGER", doc = "the code now; 0: none any more", unit = "code", null = false }
code_before = { type = "INTEGER", doc = "the last known code; NULL: none was shown", unit = "code" }
*/
WITH told AS (
    -- GPUs that show a code at all: on a healthy fleet none, which spares the window below.
    SELECT cluster, node, gpu_uuid
    FROM gpu_sample
    GROUP BY ALL
    HAVING max(xid_code) > 0 OR max(recovery_action) > 0
),
sample AS (
    SELECT
        cluster, node, gpu_uuid, ts,
        unnest(['xid_code', 'recovery_action']) AS signal,
        unnest([xid_code, recovery_action]) AS code
    FROM gpu_sample
    SEMI JOIN told USING (cluster, node, gpu_uuid)
    WHERE mig_instance = ''
),
compared AS (
    SELECT
        *,
        last_value(code IGNORE NULLS) OVER before AS code_before,
        max(ts) OVER before AS after_ts
    FROM sample
    WINDOW before AS (
        PARTITION BY cluster, node, gpu_uuid, signal ORDER BY ts
        RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING
    )
)
SELECT cluster, node, gpu_uuid, signal, ts, after_ts, code, code_before
FROM compared
WHERE after_ts IS NOT NULL
    AND code IS NOT NULL
    AND code != coalesce(code_before, 0)
