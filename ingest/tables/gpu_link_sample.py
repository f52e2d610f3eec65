"""gpu_link_sample: state, speed and errors of a GPU's links, one row per NVLink and reading."""

from __future__ import annotations

from fleetmark.table import Column, Table

from ..telemetry._signals import LINK_STATUS, REGISTRY

GPU_LINK_SAMPLE = Table(
    name="gpu_link_sample",
    doc=(
        "NVLinks of a GPU, one row per link and reading, from `nvidia-smi nvlink` and from exporter "
        "fields of one link. dcgm-exporter watches only links that were up when it started, so a "
        "link without rows there is not a link that is up: compare with the part's link count. "
        "Counters restart at a driver reload or GPU reset. NULL is unknown."
    ),
    grain=("cluster", "node", "gpu_uuid", "link", "ts"),
    time="ts",
    period="hour",
    sort=("node", "gpu_index", "gpu_uuid", "link", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the node belongs to"),
        Column("node", "VARCHAR", "host name as the exporter gives it or as stated"),
        Column("gpu_uuid", "VARCHAR", "the GPU's UUID, with the prefix GPU-"),
        Column("link", "INTEGER", "number of the link on that GPU, from 0"),
        Column("ts", "TIMESTAMP", "time of the reading, UTC"),
        Column("gpu_index", "INTEGER", "the driver's index on that node; not an identity, changes on reboot"),
        Column("gpu_model", "VARCHAR", "model name as the driver gives it"),
        Column("state", "VARCHAR", "up, asleep (up, saving power) or inactive (down or switched off)"),
        Column(
            "speed_bytes_per_s",
            "DOUBLE",
            "signalling rate one way of a link that is up, as nvidia-smi gives it; the payload of NVLink 4 is 0.941 of it",
            unit="bytes/s",
        ),
        *(
            Column(
                signal.column.removeprefix("link_"), signal.type, f"{signal.doc} ({signal.kind})", unit=signal.unit
            )
            for signal in REGISTRY
            if signal.entity == "link" and signal.column != LINK_STATUS
        ),
    ),
)  # fmt: skip
