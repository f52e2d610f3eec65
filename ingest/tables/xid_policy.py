"""xid_policy: what each consumer of XIDs would do about each code, side by side."""

from __future__ import annotations

from fleetmark.table import Column, Table

ACTIONS = (
    "none", "investigate", "restart_app", "reset_when_idle", "withdraw_gpu", "reset_gpu",
    "reboot_node", "drain_node",
)  # fmt: skip
SCOPES = ("gpu", "one_gpu", "tpc", "boot", "device")

_WHICH = (
    Column("policy", "VARCHAR", "whose policy: nvidia, gpud, k8s_device_plugin, eks_agent, gcm, azure_nhc, imbue, dcgm_health, nvsentinel, hyperpod, fleetmark, or a name of your own"),
    Column("event", "VARCHAR", "health_event.event: xid, sxid, link_down, pcie_limited, ras_error, gpu_reset, gpu_reset_failed or recovery_action. A policy with rows for recovery_action follows what the driver asks for, whatever its rows for the code say"),
    Column("code", "INTEGER", "the code; 0: every code that the policy has no row for"),
    Column("pattern", "VARCHAR", "regular expression that the message must match; empty: any. Of the rows of one code those with a pattern come first"),
)  # fmt: skip
_VERDICT = (
    Column("class", "VARCHAR", "what fails: application, driver, firmware, hardware, memory, fabric, pcie, power, nic, consequence (of another event), unknown; NULL where the policy does not say"),
    Column("severity", "INTEGER", "0 information, 1 note, 2 the job is lost, 3 the GPU must be reset, 4 the node is out of service; NULL where the policy does not say", unit="level"),
    Column("action", "VARCHAR", "what it would do, from least to most: " + ", ".join(ACTIONS) + ". This table's reading of `native`", null=False),
    Column("native", "VARCHAR", "the policy's own word"),
    Column("native_follow_up", "VARCHAR", "its own word for what comes next if that does not help"),
)  # fmt: skip
_REPEAT = (
    Column("repeat_scope", "VARCHAR", "what makes an event a repeat: gpu (same GPU and code), one_gpu (the same, under another person's job, and no other GPU of the node or job has the code), tpc (the same unit, GPC and TPC, of the GPU, under another person's job), boot (same GPU and code, each after another boot of the node), device (same network port)"),
    Column("repeat_count", "INTEGER", "from so many events on, this one included, repeat_action holds", unit="count"),
    Column("repeat_window_h", "INTEGER", "within so many hours before this one, 720 at most", unit="h"),
    Column("repeat_severity", "INTEGER", "severity of a repeat", unit="level"),
    Column("repeat_action", "VARCHAR", "action on a repeat"),
    Column("repeat_native", "VARCHAR", "the policy's own word for that"),
)  # fmt: skip

XID_POLICY = Table(
    name="xid_policy",
    doc=(
        "What to do about GPU error codes: policies of several tools side by side, each row with its "
        "origin, so that they can be compared and replayed over history. Fleetmark brings these rows; "
        "yours come in with `fleetmark ingest xid_policy FILE`, under a name of their own or to replace "
        "a row by a later recorded_ts."
    ),
    grain=("policy", "event", "code", "pattern"),
    latest=("recorded_ts",),
    sort=("policy", "event", "code"),
    columns=(
        *_WHICH,
        *_VERDICT,
        *_REPEAT,
        Column("source", "VARCHAR", "where that is written: repository@commit:path, or who decided"),
        Column("recorded_ts", "TIMESTAMP", "when the row was written, UTC: of two the later counts"),
    ),
)  # fmt: skip
