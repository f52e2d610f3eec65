"""gpu_event: what the kernel log of a node says of its GPUs, NVSwitches, NICs and links."""

from fleetmark.table import Column, Table

_WHAT = (
    Column("cluster", "VARCHAR", "cluster the node belongs to"),
    Column("node", "VARCHAR", "host name as the line gives it, else as stated"),
    Column("ts", "TIMESTAMP", "event time: the stamp of the line, UTC"),
    Column(
        "ts_precision_s",
        "DOUBLE",
        "how finely the stamp tells the time: the event lies in [ts, ts + ts_precision_s). In the "
        "hour that a clock change repeats, ts is the first reading and this includes the second",
        unit="s",
        null=False,
    ),
    Column(
        "event",
        "VARCHAR",
        "xid; sxid; sxid_detail (a further line about an sxid: count sxid only); fallen_off_bus "
        "(often beside xid 79); rate_limited (lines are missing: counts around it are lower "
        "bounds); pcie_limited (a device's PCIe link is below what it can do); link_down; link_up; gpu_address (the driver "
        "says which GPU sits at pci_bus_id); driver_loaded; boot; of amdgpu: ras_error (error_count new "
        "errors); ras_total (error_count since the driver's load: beside ras_error in newer kernels, "
        "alone in older ones; never add the two); gpu_reset; gpu_reset_failed (also NVSentinel's); "
        "gpu_reset_command (somebody ran nvidia-smi --gpu-reset under sudo, or NVSentinel reset a GPU: "
        "message says which)",
        null=False,
    ),
    Column("message", "VARCHAR", "the message, without stamp, host and tag"),
    Column(
        "repeat_no",
        "INTEGER",
        "1 for the first line with this node, ts and message in its file, 2 for the second, ...",
        unit="count",
    ),
    Column(
        "event_count",
        "BIGINT",
        "events the line stands for: 1, or n where syslog wrote `message repeated n times`",
        unit="count",
        null=False,
    ),
)
_DETAIL = (
    Column("xid_code", "INTEGER", "number of an xid; NULL for every other event"),
    Column("sxid_code", "INTEGER", "number of an sxid or sxid_detail: not the number space of xid"),
    Column(
        "severity",
        "VARCHAR",
        "fatal or non_fatal, where the line says so (sxid, and xid of NVLink 5); correctable, "
        "uncorrectable or deferred of ras_error and ras_total (deferred: poison that was kept or "
        "consumed); else NULL",
    ),
    Column(
        "pci_bus_id",
        "VARCHAR",
        "address of the GPU, NVSwitch or NIC the line names, as 00000000:bb:dd.f in lower case",
    ),
    Column(
        "mig_instance",
        "VARCHAR",
        "GPU instance the driver lays an xid on, under MIG, as in gpu_sample; NULL: the GPU as a whole",
    ),
    Column(
        "gpu_uuid",
        "VARCHAR",
        "of gpu_address and of resets by NVSentinel; else NULL: kernel lines name GPUs by address only",
    ),
    Column("driver_version", "VARCHAR", "of driver_loaded: the NVIDIA driver's version"),
    Column("device", "VARCHAR", "network interface of a link, or the driver's name of an NVSwitch"),
    Column("nvlink_index", "INTEGER", "NVLink the line names; NULL where it names none (-1)"),
    Column(
        "error_count",
        "BIGINT",
        "ras_error: new errors; ras_total: all since the driver's load",
        unit="count",
    ),
    Column(
        "block", "VARCHAR", "ras_error, ras_total: block of the GPU, such as umc (memory) or gfx"
    ),
    Column("pid", "BIGINT", "process the GPU was working for: a victim, not a culprit"),
    Column("process", "VARCHAR", "name of that process, cut by the kernel to 15 characters"),
    Column(
        "suppressed_count", "BIGINT", "rate_limited: lines left out, where it says", unit="count"
    ),
    Column(
        "printed_one_of_count",
        "BIGINT",
        "rate_limited: from now on one line in so many is printed, where it says",
        unit="count",
    ),
)

GPU_EVENT = Table(
    name="gpu_event",
    doc=(
        "Events of GPUs, NVSwitches, NICs and links from kernel logs, one row per line that states "
        "one. A line is known by node, stamp, message and how often that combination came before it "
        "in its file (repeat_no): a log that repeats a line within one stamp has two events, while "
        "the same log read again, rotated, copied (syslog and kern.log) or dumped a second time "
        "adds none. The same event from logs with differing stamps (dmesg and syslog) stays two rows."
    ),
    grain=("cluster", "node", "ts", "message", "repeat_no"),
    time="ts",
    sort=("node", "ts"),
    columns=(*_WHAT, *_DETAIL),
)
