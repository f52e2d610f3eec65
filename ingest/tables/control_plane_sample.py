"""Contract of `control_plane_sample`: what the parts that run a Kubernetes cluster say about their load."""

from fleetmark.table import Column, Table

CONTROL_PLANE_SAMPLE = Table(
    name="control_plane_sample",
    doc=(
        "One row per signal of API server, etcd and scheduler and scrape; of a histogram one per bucket, "
        "counted up to its bound. Series that differ in other labels are added up."
    ),
    grain=("cluster", "instance", "signal", "part", "bucket", "ts"),
    time="ts",
    sort=("cluster", "signal", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("instance", "VARCHAR", "host the page came from; '' if not stated"),
        Column("signal", "VARCHAR", "what is measured, see ingest/scheduler/control_plane.py"),
        Column("part", "VARCHAR", "verb, kind of request, result, queue or class of codes; '' for none"),
        Column("bucket", "VARCHAR", "upper bound of a histogram's bucket, as a number; '' in gauges and counters"),
        Column("ts", "TIMESTAMP", "when it was scraped"),
        Column("kind", "VARCHAR", "gauge, counter or histogram", null=False),
        Column("value", "DOUBLE", "as printed: a level, or counted since the start of the process"),
    ),
)  # fmt: skip
