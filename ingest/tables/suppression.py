"""suppression: what is registered as lawful, for a time."""

from fleetmark.table import Column, Table

SUPPRESSION = Table(
    name="suppression",
    doc="Registered work that looks like theft: findings of this principal on this family, in jobs of this "
    "name, are recorded as suppressed until it expires.",
    grain=("cluster", "principal", "family", "job_class"),
    latest=("created_ts",),
    columns=(
        Column("cluster", "VARCHAR", "cluster (or account) it holds for"),
        Column("principal", "VARCHAR", "whose findings; as in storage_access"),
        Column("family", "VARCHAR", "family of the checkpoints; as in checkpoint_object"),
        Column("job_class", "VARCHAR", "name of the jobs; '' for work outside the scheduler"),
        Column("owner", "VARCHAR", "who answers for it", null=False),
        Column("reason", "VARCHAR", "what the work is", null=False),
        Column("created_ts", "TIMESTAMP", "when it was written", null=False),
        Column("expires_ts", "TIMESTAMP", "until when it holds, 90 days at most", null=False),
    ),
)
