"""gpu_sample_extra: exporter fields that are no column of gpu_sample, narrow."""

from __future__ import annotations

from fleetmark.table import Column, Table

GPU_SAMPLE_EXTRA = Table(
    name="gpu_sample_extra",
    doc=(
        "What exporters print beside the columns of gpu_sample, narrow: one row per series and scrape. "
        "A field that the signal registry knows (rarely read ones of a GPU, those of a switch or a "
        "CPU) stands under its canonical name and in its unit, whatever the exporter calls it; every "
        "other one in the exporter's name and unit, until the registry has a line for it."
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
        Column("field", "VARCHAR", "canonical name, or the exporter's where unit is NULL"),
        Column("value", "DOUBLE", "the number in `unit`, or as printed; NULL for what is no measurement"),
        Column("unit", "VARCHAR", "unit of the value; NULL: the exporter's, not known"),
        Column("labels", "VARCHAR", "all labels as a JSON object, names sorted"),
    ),
)  # fmt: skip
