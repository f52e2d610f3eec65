"""gpu_sample: GPU telemetry, wide: one row per GPU and scrape."""

from __future__ import annotations

from fleetmark.table import Column, Table

from ..telemetry._signals import SIGNALS

GPU_SAMPLE = Table(
    name="gpu_sample",
    doc=(
        "GPU telemetry, one row per GPU and scrape, one column per canonical signal. Under MIG the "
        "GPU has a row for what it has once (power, temperature, energy, links) and one more per "
        "instance for what is measured there (activity, framebuffer), so that sums over rows count "
        "nothing twice. NULL is unknown: quality says why where the exporter gave a value that is none. "
        "Decimals are those that exporters print: 3 of power and energy, 6 of profiled shares and times; the "
        "store keeps the nearest binary fraction (round(power_w, 3) is what was printed)."
    ),
    grain=("cluster", "node", "gpu_uuid", "mig_instance", "ts"),
    time="ts",
    period="hour",
    sort=("node", "gpu_index", "gpu_uuid", "mig_instance", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the node belongs to"),
        Column("node", "VARCHAR", "host name as the exporter gives it; inside a pod it may be the pod's"),
        Column("gpu_uuid", "VARCHAR", "the GPU's UUID, with the prefix GPU-; under MIG the parent's. AMD exporters that print none: SERIAL- and "
            "the board's serial number, or else node/index"),
        Column("gpu_index", "INTEGER", "the driver's index on that node; not an identity, changes on reboot"),
        Column("mig_instance", "VARCHAR", "GPU instance id under MIG; empty for the whole GPU"),
        Column("ts", "TIMESTAMP", "time of the scrape, UTC"),
        Column("gpu_model", "VARCHAR", "model name as the driver gives it"),
        Column("mig_profile", "VARCHAR", "slice of a MIG instance, such as 1g.10gb"),
        *(signal.as_column() for signal in SIGNALS),
        Column(
            "quality",
            "VARCHAR[]",
            "signal:reason for each value that was printed and is no measurement: blank, not_found, "
            "not_supported, not_permitted, sentinel (one of these, not known which), out_of_range, "
            "not_a_number, infinite, stale (Prometheus marks the end of its series there); from nvidia-smi "
            "also unreadable, gpu_lost, reset_required; conflict: the page gives two values, the first stays. "
            "Empty when all is well",
            null=False,
        ),
    ),
)  # fmt: skip
