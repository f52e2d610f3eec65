"""Contract of `reason_rule`: how reasons that schedulers and operators write are sorted into classes."""

from fleetmark.table import Column, Table

KINDS = ("node", "pending", "evicted")

REASON_RULE = Table(
    name="reason_rule",
    doc=(
        "Rules that sort free-text reasons: of the rules of a kind whose pattern the lower-case reason "
        "matches, the one of lowest rank gives the class; a reason that none matches is `operator` for "
        "nodes where somebody wrote it, else `unknown`. Fleetmark brings these rows; yours come in with "
        "`fleetmark ingest reason_rule FILE`, and replace a rule of the same kind and pattern by a later "
        "recorded_ts."
    ),
    grain=("kind", "pattern"),
    latest=("recorded_ts",),
    sort=("kind", "rank"),
    columns=(
        Column("kind", "VARCHAR", "what was said why: node (out of service), pending (waits), evicted"),
        Column(
            "pattern", "VARCHAR", "regular expression (RE2), found anywhere in the lower-case reason"
        ),
        Column("rank", "INTEGER", "of several that match the lowest counts", null=False),
        Column(
            "class",
            "VARCHAR",
            "node: gpu_fell_off_bus ecc gpu_xid nvlink_ib disk_fs planned_maintenance prolog_epilog "
            "kill_task_failed reboot not_responding. pending: resources priority quota gang topology "
            "node_unavailable reservation limit dependency begin_time held license preemption "
            "misconfigured scheduler. evicted: preemption node_failure startup timelimit policy user",
            null=False,
        ),
        Column("is_planned", "BOOLEAN", "true when it was planned: not a failure"),
        Column("source", "VARCHAR", "where the wording is from: repository@commit:path, or who decided"),
        Column("recorded_ts", "TIMESTAMP", "when the rule was written, UTC: of two the later counts"),
    ),
)  # fmt: skip
