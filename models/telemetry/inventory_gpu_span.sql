/*
doc = """
Where each GPU of the inventory stands, and when: inventory_gpu with at most one place per GPU and moment,
which everything that places GPUs reads.

A list often leaves the old entry of a moved GPU open. An entry ends where the next one of the same UUID
begins, of whatever place and cluster: a chip stands in one place. is_cut says that this, and not the entry,
set end_ts. An entry that was cut does not go on after a shorter later one has ended: from then on nobody
says where the GPU is. Entries of one UUID in two clusters with the same start stay both, since nothing says
which is right; no join within a cluster is doubled by that. Another GPU that takes the same node and index
ends nothing: the driver numbers the GPUs anew when one is lost.
"""
grain = ["cluster", "gpu_uuid", "start_ts"]
sort = ["cluster", "node", "gpu_index"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name", null = false }
rack = { type = "VARCHAR", doc = "rack the node stands in" }
leaf_switch = { type = "VARCHAR", doc = "first switch of the node's fabric" }
nvlink_domain = { type = "VARCHAR", doc = "inventory_gpu.nvlink_domain" }
gpu_index = { type = "INTEGER", doc = "the driver's index on that node" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
nvlink_count = { type = "INTEGER", doc = "NVLinks that should be up", unit = "count" }
owner = { type = "VARCHAR", doc = "team or tenant it was bought for" }
start_ts = { type = "TIMESTAMP", doc = "in service here from, UTC" }
end_ts = { type = "TIMESTAMP", doc = "in service here until (not included), UTC; NULL: still" }
is_cut = { type = "BOOLEAN", doc = "end_ts is the start of the GPU's next entry: its own is later or open", null = false }
*/
WITH followed AS (
    SELECT
        *,
        min(start_ts) OVER (
            PARTITION BY gpu_uuid ORDER BY start_ts
            RANGE BETWEEN INTERVAL 1 MICROSECOND FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS next_ts
    FROM inventory_gpu
)
SELECT
    cluster, node, rack, leaf_switch, nvlink_domain, gpu_index, gpu_uuid, gpu_model, nvlink_count, owner,
    start_ts,
    least(end_ts, next_ts) AS end_ts,
    coalesce(next_ts < coalesce(end_ts, 'infinity'::TIMESTAMP), false) AS is_cut
FROM followed
