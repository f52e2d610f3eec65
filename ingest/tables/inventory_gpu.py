"""inventory_gpu: which GPUs there should be, and where."""

from __future__ import annotations

from fleetmark.table import Column, Table

INVENTORY_GPU = Table(
    name="inventory_gpu",
    doc=(
        "The GPUs that belong to the fleet, one row per GPU and time in one place. What is listed "
        "here and never reports is missing; a GPU that moves has one row per place."
    ),
    grain=("cluster", "gpu_uuid", "start_ts"),
    latest=("recorded_ts",),
    sort=("cluster", "node", "gpu_index"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the node belongs to"),
        Column("node", "VARCHAR", "host name", null=False),
        Column("rack", "VARCHAR", "rack the node stands in"),
        Column("leaf_switch", "VARCHAR", "first switch of the node's fabric"),
        Column(
            "nvlink_domain",
            "VARCHAR",
            "GPUs that reach each other over NVLink: the rack of an NVL72; NULL: the node",
        ),
        Column("gpu_index", "INTEGER", "the driver's index on that node"),
        Column("gpu_uuid", "VARCHAR", "the GPU's UUID, with the prefix GPU-"),
        Column("gpu_model", "VARCHAR", "model name as the driver gives it"),
        Column("nvlink_count", "INTEGER", "NVLinks that should be up", unit="count"),
        Column("owner", "VARCHAR", "team or tenant it was bought for"),
        Column("start_ts", "TIMESTAMP", "in service here from, UTC; 1970-01-01: since always"),
        Column("end_ts", "TIMESTAMP", "in service here until (not included), UTC; NULL: still"),
        Column(
            "recorded_ts",
            "TIMESTAMP",
            "when the entry was written, UTC: of two for one GPU and start the later counts",
        ),
    ),
)
