/*
doc = """
Lines of the kernel log that tell once more of a link change that a line on the network interface tells of.
A RoCE or InfiniBand port has two names, the interface's (eth2, ib0) and the RDMA device's (mlx5_0), and the
network driver and the InfiniBand core each print its loss.

A line on an RDMA device is a copy where lines on interfaces of its node say the same within same_window_s.
PCI addresses decide where both lines have one; without them it takes as many interfaces as RDMA devices in
that time: with fewer, some port has no line on an interface, and nothing is taken for a copy. Copies on both
sides of midnight are not seen.
"""
grain = ["cluster", "node", "ts", "message", "repeat_no"]
time = "ts"
sort = ["cluster", "node", "ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the log gives it" }
ts = { type = "TIMESTAMP", doc = "gpu_event.ts of the copy" }
message = { type = "VARCHAR", doc = "its message" }
repeat_no = { type = "INTEGER", doc = "gpu_event.repeat_no", unit = "count" }
device = { type = "VARCHAR", doc = "RDMA device it names", null = false }
interface = { type = "VARCHAR", doc = "interface whose line says the same; the nearest in time", null = false }

[params.same_window_s]
default = 5
most = 60
doc = "s; both lines of one change come within milliseconds, and bonding and network managers follow within seconds. Stamps of whole seconds add one. Own choice."
*/
WITH change AS (
    SELECT
        cluster, node, ts, message, repeat_no, event, device, pci_bus_id,
        -- Names of the kernel's RDMA drivers, and roce… of rdma-core's persistent naming.
        regexp_full_match(device, '(mlx[45]_|mlx5_bond_|hfi1_|qedr|cxgb4_|hns_|mana_|erdma_|efa_|bnxt_re|irdma|rxe|siw|roce).*')
            AS is_rdma
    FROM gpu_event
    WHERE event IN ('link_down', 'link_up') AND device IS NOT NULL
),
near AS (
    SELECT
        rdma.*, port.device AS interface,
        abs(epoch(port.ts - rdma.ts)) AS apart_s,
        rdma.pci_bus_id = port.pci_bus_id AS is_same_card
    FROM change AS rdma
    JOIN change AS port
        ON rdma.cluster = port.cluster AND rdma.node = port.node AND rdma.event = port.event
        AND port.ts BETWEEN rdma.ts - to_seconds(getvariable('same_window_s'))
            AND rdma.ts + to_seconds(getvariable('same_window_s'))
    WHERE rdma.is_rdma AND NOT port.is_rdma AND coalesce(rdma.pci_bus_id = port.pci_bus_id, true)
),
beside AS (
    SELECT rdma.cluster, rdma.node, rdma.ts, rdma.message, rdma.repeat_no, count(DISTINCT other.device) AS rdma_count
    FROM change AS rdma
    JOIN change AS other
        ON rdma.cluster = other.cluster AND rdma.node = other.node AND rdma.event = other.event
        AND other.ts BETWEEN rdma.ts - to_seconds(getvariable('same_window_s'))
            AND rdma.ts + to_seconds(getvariable('same_window_s'))
    WHERE rdma.is_rdma AND other.is_rdma
    GROUP BY ALL
)
SELECT
    cluster, node, ts, message, repeat_no, device,
    arg_min(interface, (NOT coalesce(is_same_card, false), apart_s, interface)) AS interface
FROM near
JOIN beside USING (cluster, node, ts, message, repeat_no)
GROUP BY cluster, node, ts, message, repeat_no, device
HAVING bool_or(is_same_card) OR count(DISTINCT interface) >= any_value(rdma_count)
