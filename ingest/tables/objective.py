"""Contract of `objective`: what a team was promised."""

from fleetmark.table import Column, Table

OBJECTIVE = Table(
    name="objective",
    doc=(
        "One row per objective: of a team's attempts, the share that must meet a limit. Written by hand. A team "
        "is an account, a partition or queue, or a user, or any of these together; what is empty holds for all."
    ),
    grain=("cluster", "objective"),
    latest=("recorded_ts",),
    sort=("cluster", "objective"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("objective", "VARCHAR", "name, as reports and alerts show it"),
        Column("account", "VARCHAR", "account of the attempts; NULL: any"),
        Column("partition", "VARCHAR", "partition or queue; NULL: any"),
        Column("principal", "VARCHAR", "user; NULL: any"),
        Column("min_gpus", "INTEGER", "smallest attempts meant; NULL: all with GPUs", unit="count"),
        Column("max_gpus", "INTEGER", "largest attempts meant; NULL: no limit", unit="count"),
        Column(
            "kind",
            "VARCHAR",
            "wait (starts within limit_s of its submit), slowdown (bounded slowdown at most limit_ratio), "
            "completion (of what the infrastructure can spoil: does not end by node failure, preemption or requeue)",
            null=False,
        ),
        Column("limit_s", "DOUBLE", "longest wait, of kind wait", unit="s"),
        Column("limit_ratio", "DOUBLE", "largest slowdown, of kind slowdown", unit="ratio"),
        Column("target_ratio", "DOUBLE", "share of the attempts that must meet it", unit="ratio", null=False),
        Column("recorded_ts", "TIMESTAMP", "when the entry was written: of two the later counts"),
    ),
)  # fmt: skip
