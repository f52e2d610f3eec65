/*
doc = "Which GPU sits at which PCI address of which node, and since when that is known: from nvidia-smi and exporters (gpu_identity) and from the driver's own lines (gpu_event). Kernel lines name GPUs by address only; this names them by UUID."
grain = ["cluster", "node", "pci_bus_id", "gpu_uuid"]
sort = ["cluster", "node", "pci_bus_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name" }
pci_bus_id = { type = "VARCHAR", doc = "address as 00000000:bb:dd.f" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
first_ts = { type = "TIMESTAMP", doc = "first known to sit there", null = false }
*/
SELECT cluster, node, pci_bus_id, gpu_uuid, min(ts) AS first_ts
FROM (
    SELECT cluster, node, pci_bus_id, gpu_uuid, ts
    FROM gpu_identity
    UNION ALL
    SELECT cluster, node, pci_bus_id, gpu_uuid, ts
    FROM gpu_event
    WHERE event = 'gpu_address'
)
WHERE node IS NOT NULL AND pci_bus_id IS NOT NULL
GROUP BY ALL
