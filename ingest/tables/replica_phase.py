"""`replica_phase`: what an inference server did between being created and being ready."""

from __future__ import annotations

from fleetmark.table import Column, Table

REPLICA_PHASE = Table(
    name="replica_phase",
    doc="Phases of the start of inference replicas, as Kubernetes and the servers' own logs tell them. Phases lie within "
    "one another: pod holds schedule, start and serve; start holds pull; serve holds load and warm_up; warm_up "
    "holds compile and capture.",
    grain=("cluster", "replica", "phase", "start_ts", "part"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("replica", "VARCHAR", "one running server, as in serving_sample: its pod"),
        Column(
            "phase",
            "VARCHAR",
            "pod (created to ready), schedule (created to placed on a node), start (placed to container "
            "running), pull (an image), serve (container running to ready), load (weights from storage), "
            "warm_up (profile, cache, warm-up of the engine), compile (graphs), capture (CUDA graphs)",
        ),
        Column(
            "start_ts", "TIMESTAMP", "beginning, UTC; of phases in logs the end less the length"
        ),
        Column(
            "part", "VARCHAR", "container, image or process, where there are several; else empty"
        ),
        Column("end_ts", "TIMESTAMP", "end, UTC", null=False),
        Column("duration_s", "DOUBLE", "length", "s", null=False),
        Column("node", "VARCHAR", "host, where known"),
        Column("origin", "VARCHAR", "kubernetes, vllm or sglang", null=False),
    ),
    time="start_ts",
    end="end_ts",
    sort=("replica", "start_ts"),
)
