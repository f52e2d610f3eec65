"""gpu_sample_extra: exporter fields that are no column of gpu_sample, narrow."""

from __future__ import annotations

from fleetmark.table import Column, Table

GPU_SAMPLE_EXTRA = Table(
    name="gpu_sample_extra",
    doc=(
        "Exporter fields that the signal registry does not know, and known ones of something else "
        "than a GPU (a link, a switch, a CPU): one row per series and scrape, in the exporter's name "
        "and unit. A new field lands here until the registry has a line for it."
    ),
    grain=("cluster", "node", "ts", "field", "labels"),
    time="ts",
    period="hour",
    sort=("field", "node", "gpu_uuid", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the node belongs to"),
        Column("node", "VARCHAR", "host name as the exporter gives it"),
        Column("gpu_uuid", "VARCHAR", "the GPU's UUID, with the prefix GPU-; NULL where the series has none"),
        Column("ts", "TIMESTAMP", "time of the scrape, UTC"),
        Column("field", "VARCHAR", "the exporter's name"),
        Column("value", "DOUBLE", "the number as printed; NULL for NaN, infinities and DCGM's 64-bit blanks"),
        Column("labels", "VARCHAR", "all labels as a JSON object, names sorted"),
    ),
)  # fmt: skip
