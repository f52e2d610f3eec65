"""What a kernel message says: one pattern per shape, and the names in it as columns.

Shapes were taken from driver logs (samples/telemetry/kernel/) and from the print statements of
NVIDIA/open-gpu-kernel-modules, the Linux kernel's drivers/net, net/core and drivers/gpu/drm/amd, systemd
and rsyslog.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

# A line that holds none of these states no event; the rest are looked at more closely.
MARKERS = (
    "NVRM", "SXid", "fallen off", "carrier", "link", "Link", "suppressed", "Suppressed",
    "dropped **", "kernel messages", "messages lost", "message repeated", "limited by",
    "Linux version", "hardware errors detected", "poison consumption detected", "GPU reset", "nvidia-smi",
)  # fmt: skip
_PCI = r"(?P<pci>[0-9a-fA-F]+(?::[0-9a-fA-F]+)+(?:\.[0-7])?)"
_UUID = r"(?P<uuid>GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
_INTERFACE = r"(?P<device>[A-Za-z][\w.@-]{0,31})"
_CHANGE = r"(?P<change>up|UP|Up|down|DOWN|Down)\b"
_SXID = rf"^(?P<device>nvidia-nvswitch\d*|nvswitch\d*): +SXid \((?:PCI:)?{_PCI}\): +(?P<code>\d{{1,6}}), *"
# Pairs, bridges and tunnels of containers flap with every pod; SATA and USB are no networks.
_NOT_A_PORT = r"^(?:lo$|veth|cali|lxc|docker|br-|virbr|cni|flannel|cilium|kube-|vxlan|dummy|tap|tun|SATA$|usb)"
_AMD = rf"^amdgpu(?: {_PCI})?: +(?:amdgpu: +)?"
# {7}: the driver's number of a RAS event. Zero is no error.
_AMD_ERRORS = (
    _AMD + r"(?:\{\d+\} *)?(?:socket: \d+,? +)?(?:die: \d+,? +)?(?P<errors>[1-9]\d{0,17}) +"
)
_AMD_KIND = (
    r"(?:(?P<severity>correctable|uncorrectable|deferred) +hardware errors|(?P<poison>poison) consumption)"
    r" +detected"
)
_AMD_BLOCK = r" +in +(?P<block>[\w.-]+) +block"
UNREADABLE = r"^(?:NVRM: *Xid\b|(?:nvidia-)?nvswitch\d*: *SXid\b)"
REPEATED = r"^message repeated (\d+) times: \[ ?(.*?) *\]?$"


@dataclass(frozen=True, slots=True)
class Shape:
    """`event` of the messages that fit; None: as the group `change` says (a link, up or down)."""

    event: str | None
    pattern: str
    from_kernel: bool = True


SHAPES = (
    Shape(
        "xid",
        rf"^NVRM: *Xid \((?:PCI:)?{_PCI}(?: GPU-I:0*(?P<instance>\d+)(?: GPU-CI:\d+)?)?\): +(?P<code>\d{{1,5}}),(?: *pid=(?P<pid>[^,]*),)?"
        r"(?: *name=(?P<process>[^,]*),)?"
        r"(?: *\w+ +(?P<severity>Nonfatal|Fatal) +\S+ +\S+ +Link +(?P<nvlink>-?\d+))?",
    ),
    Shape("sxid", _SXID + r"(?P<severity>Fatal|Non-fatal)\b(?:, *Link (?P<nvlink>-?\d+))?"),
    Shape("sxid_detail", _SXID),
    Shape(
        "gpu_address",
        rf"^NVRM: +GPU at PCI:{_PCI}: +{_UUID}",
    ),
    Shape(
        "driver_loaded",
        r"^NVRM: +loading NVIDIA UNIX .*?Kernel Module(?: for \S+)? +(?P<version>\d+\.[\d.]+)",
    ),
    Shape("boot", r"^Linux version \d"),
    Shape("fallen_off_bus", rf"^NVRM: +GPU (?:at )?(?:PCI:)?{_PCI}: .*fallen off the bus"),
    Shape("fallen_off_bus", rf"^NVRM: +The NVIDIA GPU {_PCI}.*fallen off the bus"),
    Shape("fallen_off_bus", r"^NVRM: +.*fallen off the bus"),
    Shape(
        "rate_limited",
        rf"^NVRM: +Rate limiting (?:.*?PCI:{_PCI})?.*?printing 1 of every (?P<one_of>\d+)",
    ),
    Shape("rate_limited", r"^[\w.]+: (?P<suppressed>\d+) callbacks suppressed"),
    Shape("rate_limited", r"^printk: (?P<suppressed>\d+) messages suppressed"),
    Shape("rate_limited", r"^\*\* (?P<suppressed>\d+) printk messages dropped \*\*"),
    Shape("rate_limited", r"^Missed (?P<suppressed>\d+) kernel messages", from_kernel=False),
    Shape(
        "rate_limited",
        r"^Suppressed (?P<suppressed>\d+) messages from \S*(?:kernel|systemd-networkd)",
        from_kernel=False,
    ),
    Shape(
        "rate_limited",
        r"^imjournal: (?P<suppressed>\d+) messages lost due to rate-limiting",
        from_kernel=False,
    ),
    Shape("rate_limited", r"^last message repeated (?P<suppressed>\d+) times", from_kernel=False),
    Shape("pcie_limited", rf"^(?:\S+ )?{_PCI}(?: \S+)?: .*available PCIe bandwidth, limited by"),
    # Without `new` it is the sum since the driver's load, also in kernels before `in total` was said.
    Shape("ras_error", rf"{_AMD_ERRORS}new +{_AMD_KIND}{_AMD_BLOCK}"),
    Shape("ras_total", rf"{_AMD_ERRORS}{_AMD_KIND}(?: +in total)?{_AMD_BLOCK}"),
    Shape("gpu_reset", rf"{_AMD}GPU reset begin"),
    Shape("gpu_reset_failed", rf"{_AMD}GPU reset(?:\(\d+\))? failed"),
    # What sudo ran: it writes `alice : TTY=`, of what it refused `alice : command not allowed ; TTY=`. -rgc and
    # -rmc reset clocks only. NVSentinel's reset job tells the log how it ended.
    Shape(
        "gpu_reset_command",
        r"^\s*\S+ : [A-Z]+=.*\bCOMMAND=\S*nvidia-smi\b.*\s(?:-r|--gpu-reset)(?:\s|$)",
        from_kernel=False,
    ),
    Shape("gpu_reset_failed", rf"^GPU reset executed: {_UUID}, success: false", from_kernel=False),
    Shape("gpu_reset_command", rf"^GPU reset executed: {_UUID}", from_kernel=False),
    Shape(
        None,
        rf"^{_INTERFACE}: +(?:(?P<change>[Ll]ost|[Gg]ained) carrier"
        r"|carrier (?P<carrier>lost|acquired))",
        from_kernel=False,
    ),
    Shape(
        None,
        r"^(?:<\w+> *)?(?:\[[\d.]+\] *)?(?:device )?\((?P<device>[A-Za-z][\w.@-]{0,31})\): "
        r"(?:carrier: )?link (?P<change>connected|disconnected)",
        from_kernel=False,
    ),
    Shape(
        None,
        rf"^[\w.-]+: (?:\(slave {_INTERFACE}\): )?link status definitely {_CHANGE}"
        r"(?: for interface (?P<slave>[\w.@-]+))?",
    ),
    Shape(None, rf"^(?:IPv6: )?ADDRCONF\(\w+\): {_INTERFACE}: link becomes (?P<change>ready)"),
    # The InfiniBand core, since Linux 6.14; INIT and ARMED carry no data yet.
    Shape(None, rf"^(?:[\w-]+ {_PCI} )?{_INTERFACE}: +Port:? \d+ Link (?P<change>DOWN|ACTIVE)\b"),
    Shape(None, rf"^[\w-]+ {_PCI}: (?:Port:? \d+ |[\w-]+: Port:? \d+ )Link {_CHANGE}"),
    Shape(
        None,
        rf"^(?:[\w-]+:? +)?(?:{_PCI}:? +)?{_INTERFACE}:? +(?:[\w-]+: +){{0,2}}(?:e\w+ )?(?:NIC )?"
        rf"[Ll]ink (?:is )?{_CHANGE}",
    ),
)
_GROUPS = (
    "pci", "code", "pid", "process", "severity", "nvlink", "device", "slave", "change", "carrier",
    "suppressed", "one_of", "uuid", "version", "errors", "poison", "block",
    "instance",
)  # fmt: skip
_DOWN = ("lost", "down", "disconnected")
_WITH_CODE = ("xid", "sxid", "sxid_detail")


def find_events(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `event` (NULL: none) and its columns to `frame` (tag, message); `is_unreadable`: an Xid
    or SXid that fits no shape.

    The driver's own shapes count only from the kernel: programs that quote them report no event.
    """
    is_kernel = pl.col("tag").is_null() | (pl.col("tag") == "kernel")
    repeated = pl.col("message").str.extract_groups(REPEATED).struct
    frame = frame.with_columns(
        repeated.field("1").cast(pl.Int64, strict=False).fill_null(1).alias("event_count"),
        pl.coalesce(repeated.field("2"), "message").alias("message"),
    )
    message = pl.col("message")
    which = pl.coalesce(
        pl.when(message.str.contains(shape.pattern) & (is_kernel | (not shape.from_kernel)))
        .then(pl.lit(at, dtype=pl.Int8))
        for at, shape in enumerate(SHAPES)
    )  # fmt: skip
    frame = frame.with_columns(which.alias("which")).with_columns(_groups())
    word = pl.coalesce("change", "carrier").str.to_lowercase()
    event = pl.col("which").replace_strict(
        {at: shape.event for at, shape in enumerate(SHAPES)}, default=None, return_dtype=pl.String
    )
    link = (
        pl.when(word.is_in(_DOWN))
        .then(pl.lit("link_down"))
        .when(word.is_not_null())
        .then(pl.lit("link_up"))
    )
    device = pl.coalesce("device", "slave")
    is_port = ~device.str.contains(_NOT_A_PORT).fill_null(value=False)
    frame = frame.with_columns(
        pl.coalesce(event, pl.when(is_port).then(link)).alias("event"),
        device.alias("device"),
        address(pl.col("pci")).alias("pci_bus_id"),
        pl.col("code").cast(pl.Int32, strict=False),
    )
    return _typed(frame).with_columns(
        (
            message.str.contains(UNREADABLE)
            & is_kernel
            & ~(pl.col("event").is_in(_WITH_CODE) & pl.col("pci_bus_id").is_not_null()).fill_null(
                value=False
            )
        ).alias("is_unreadable")
    )


def _groups() -> list[pl.Expr]:
    """The named groups of the shape that fits each message."""
    found: dict[str, list[pl.Expr]] = {name: [] for name in _GROUPS}
    for at, shape in enumerate(SHAPES):
        parts = pl.col("message").str.extract_groups(shape.pattern).struct
        for name in _GROUPS:
            if f"(?P<{name}>" in shape.pattern:
                found[name].append(pl.when(pl.col("which") == at).then(parts.field(name)))
    return [pl.coalesce(values).alias(name) for name, values in found.items()]


def _typed(frame: pl.DataFrame) -> pl.DataFrame:
    process = pl.col("process").str.strip_chars(" '")
    nvlink = pl.col("nvlink").cast(pl.Int32, strict=False)
    severities = {"Fatal": "fatal", "Nonfatal": "non_fatal", "Non-fatal": "non_fatal"}
    severities |= {kind: kind for kind in ("correctable", "uncorrectable", "deferred")}
    is_xid = pl.col("event") == "xid"
    return frame.with_columns(
        pl.when(is_xid).then("code").alias("xid_code"),
        pl.when(~is_xid).then("code").alias("sxid_code"),
        pl.when(pl.col("poison").is_not_null())
        .then(pl.lit("deferred"))
        .otherwise(pl.col("severity").replace_strict(severities, default=None))
        .alias("severity"),
        pl.col("errors").cast(pl.Int64, strict=False).alias("error_count"),
        pl.col("block").str.to_lowercase(),
        pl.col("pid").str.strip_chars(" '").cast(pl.Int64, strict=False),
        pl.when(~process.is_in(["", "<unknown>"])).then(process).alias("process"),
        pl.when(nvlink >= 0).then(nvlink).alias("nvlink_index"),
        pl.col("suppressed").cast(pl.Int64, strict=False).alias("suppressed_count"),
        pl.col("one_of").cast(pl.Int64, strict=False).alias("printed_one_of_count"),
        ("GPU" + pl.col("uuid").str.slice(3).str.to_lowercase()).alias("gpu_uuid"),
        pl.col("version").alias("driver_version"),
        pl.col("instance").alias("mig_instance"),
    )


def address(text: pl.Expr) -> pl.Expr:
    """A PCI address as 00000000:bb:dd.f: domain and function are often left out.

    Drivers before 2013 print bus and slot alone, the bus with four digits (0002:00).
    """
    lower = text.str.to_lowercase()
    full = lower.str.extract_groups(
        r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?$"
    ).struct
    old = lower.str.extract_groups(r"^00([0-9a-f]{2}):([0-9a-f]{2})$").struct
    return pl.coalesce(
        pl.format(
            "{}:{}:{}.{}",
            full.field("1").fill_null("").str.pad_start(8, "0"),
            full.field("2"),
            full.field("3"),
            full.field("4").fill_null("0"),
        ),
        pl.format("00000000:{}:{}.0", old.field("1"), old.field("2")),
    )
