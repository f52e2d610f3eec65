"""Contract of `node_event`: the times a node was out of service, from the scheduler's database."""

from fleetmark.table import Column, Table

NODE_EVENT = Table(
    name="node_event",
    doc=(
        "One row per interval in which a node was down, draining or failing, as Slurm's database "
        "keeps them (`sacctmgr show event`). Intervals of one node follow each other when its state "
        "or reason changes; times without a row are times in service, as far as the pull reached."
    ),
    grain=("cluster", "node", "start_ts"),
    time="start_ts",
    end="end_ts",
    observed="observed_ts",
    sort=("cluster", "start_ts", "node"),
    latest=("phase", "observed_ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the node"),
        Column("node", "VARCHAR", "node name"),
        Column("start_ts", "TIMESTAMP", "from when"),
        Column("end_ts", "TIMESTAMP", "until when; NULL while it lasts"),
        Column(
            "observed_ts",
            "TIMESTAMP",
            "an open interval is known to last until then: the stated collection time, else the "
            "latest time in the same output",
        ),
        Column("phase", "TINYINT", "1 open, 2 ended: decides which record is newer"),
        Column("state", "VARCHAR", "base state, see node_state"),
        Column("state_flags", "VARCHAR[]", "see node_state"),
        Column("native_state", "VARCHAR", "state as written"),
        Column("reason", "VARCHAR", "reason, as written"),
        Column("principal", "VARCHAR", "who set it"),
        Column("uid", "BIGINT", "that user's numeric id"),
        Column("source", "VARCHAR", "slurm_sacctmgr k8s"),
    ),
)
