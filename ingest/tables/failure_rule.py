"""failure_rule: what the end of an attempt says about its cause, one sign a row."""

from __future__ import annotations

from fleetmark.table import Column, Table

EVIDENCE = ("state", "state_reason", "node_reason_class", "health_class", "logs_seen")
DOMAINS = (
    "none", "user", "timelimit", "cancelled", "preemption", "infrastructure", "hardware", "unknown",
)  # fmt: skip
CONFIDENCE = ("low", "medium", "high")

FAILURE_RULE = Table(
    name="failure_rule",
    doc=(
        "Which failure domain a sign points to: the state or reason that the scheduler recorded, the "
        "class of the reason why a node of the attempt went out of service, the class of a health event "
        "on it, or that its kernel log was seen and is silent. Of the signs that an attempt shows the "
        "one of highest precedence decides. Fleetmark brings these rows; yours come in with "
        "`fleetmark ingest failure_rule FILE` and replace a row by a later recorded_ts."
    ),
    grain=("evidence", "value"),
    latest=("recorded_ts",),
    sort=("evidence", "value"),
    columns=(
        Column("evidence", "VARCHAR", "where the sign is: " + ", ".join(EVIDENCE)),
        Column(
            "value",
            "VARCHAR",
            "what stands there: a state of job_attempt, a state_reason, a reason class of node_outage, "
            "a class of health_event_policy, or true",
        ),
        Column("failure_domain", "VARCHAR", ", ".join(DOMAINS), null=False),
        Column("confidence", "VARCHAR", "how far the sign alone can be trusted: low, medium, high", null=False),
        Column("precedence", "INTEGER", "of several signs the highest counts", null=False),
        Column("note", "VARCHAR", "why, in a sentence"),
        Column("source", "VARCHAR", "where that is written, or who decided"),
        Column("recorded_ts", "TIMESTAMP", "when the row was written, UTC: of two the later counts"),
    ),
)  # fmt: skip
