"""verdict: what people found out about findings."""

from fleetmark.table import Column, Table

VERDICT = Table(
    name="verdict",
    doc="Acknowledgements and verdicts of people about findings; the latest one stays.",
    grain=("cluster", "finding_id"),
    latest=("judged_ts",),
    columns=(
        Column("cluster", "VARCHAR", "cluster (or account) of the finding"),
        Column("finding_id", "VARCHAR", "finding.finding_id"),
        Column(
            "verdict",
            "VARCHAR",
            "acknowledged (somebody looks at it), true_positive, false_positive or benign (rightly found, "
            "but lawful)",
            null=False,
        ),
        Column("actor", "VARCHAR", "who says so", null=False),
        Column("judged_ts", "TIMESTAMP", "when", null=False),
        Column("note", "VARCHAR", "why"),
    ),
)
