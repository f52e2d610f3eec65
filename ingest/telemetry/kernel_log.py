"""Kernel log lines of GPU nodes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..tables.gpu_event import GPU_EVENT
from ..tables.kernel_log_day import KERNEL_LOG_DAY
from ._journal_json import ENTRY, may_be_event
from ._kernel_days import day_rows
from ._kernel_event import MARKERS, address, find_events
from ._kernel_stamp import first_stamp, place_times, split_stamps

_OPTIONS = (
    Option("node", "host of lines that name none (dmesg)"),
    Option("tz", "zone of stamps that carry none, as an IANA name; that of the machine"),
    Option("year", "year of the file's first line, where stamps carry none (syslog, journalctl)"),
    Option(
        "boot_ts", "when the machine booted, RFC 3339 with zone, for stamps that count from boot"
    ),
)
_NO_NODE = "the line names no host: state it with --set node=NAME"
_BROKEN = "a journal entry in JSON that cannot be read: is it cut?"
_UNREADABLE = "an Xid or SXid line that cannot be read: expected (PCI:dddd:bb:dd): number, and more; is it cut?"
# The message of a GPU that is gone takes three lines, and the address stands in the first.
_LOST_GPU = r"The NVIDIA GPU ([0-9a-fA-F:.]+)"
_LOST_GPU_END = "fallen off the bus and is not responding"
_LOST_GPU_LINES = 3
# Equal lines of one stamp must be counted together: the end of a chunk waits for what may follow.
_HELD = timedelta(seconds=60)
_LAST_LINES = 20
_COLUMNS = (
    "line_no", "node", "ts", "ts_precision_s", "event", "message", "repeat_no", "event_count",
    "xid_code", "sxid_code", "severity", "pci_bus_id", "device", "nvlink_index", "pid", "process",
    "suppressed_count", "printed_one_of_count", "gpu_uuid", "driver_version", "error_count", "block",
    "mig_instance",
)  # fmt: skip
_DRIVER = re.compile(rb"(?:^|kernel: |\] ?|\d ?)(?:NVRM: (?:GPU|Xid)|nvidia-nvswitch\d*: SXid)")
_ENTRY = re.compile(ENTRY.encode())
_LOG_LINE = re.compile(
    rb"(?:<\d+>1? ?)?(?:\[ *\d+\.\d{6}\] "
    rb"|\[[^\s\[\]]{1,12} +[^\s\[\]]{2,12} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    rb"| ?[^\s\[\]]{2,12} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \S+ [\w./-]+(?:\[\d+\])?: "
    rb"|[-\dT:., +Z]{19,35} \S+ (?:kernel|systemd\[1\]): )"
)
_REPEAT_NO = (
    pl.int_range(1, pl.len() + 1, dtype=pl.Int32)
    .over("node", "ts", "message", order_by="line_no")
    .alias("repeat_no")
)


def _looks_like_kernel_log(head: bytes, _file_name: str) -> bool:
    """A line of NVIDIA's driver, or most lines stamped like a kernel's or syslog's."""
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    if any(_DRIVER.search(line[:120]) or _is_entry(line) for line in lines):
        return True
    return sum(1 for line in lines if _LOG_LINE.match(line)) * 2 > len(lines)


def _is_entry(line: bytes) -> bool:
    return b'"__REALTIME_TIMESTAMP"' in line and _ENTRY.match(line) is not None


@source(outputs=(GPU_EVENT, KERNEL_LOG_DAY), options=_OPTIONS, sniff=_looks_like_kernel_log)
def kernel_log(lines: pl.DataFrame, context: Context) -> Parsed:
    """Kernel log lines: dmesg (all its time formats), syslog of RFC 3164 and 5424, journalctl -o short*
    and -o json.

    Read: NVRM Xid and NVSwitch SXid in all known spellings, GPUs fallen off the bus, notices that
    lines were suppressed or dropped, PCIe devices on a narrower link than they can use, links that
    went down or up (kernel drivers, bonding, systemd-networkd, NetworkManager, dhcpcd; not those of
    containers), boots, driver loads, addresses of GPUs, and of amdgpu its RAS errors (new ones and
    sums apart; a count of zero is none) and GPU resets; resets by nvidia-smi that sudo or NVSentinel
    record. Every other line is counted as skipped, also one
    that quotes the driver, but tells that the log was collected that day (kernel_log_day). Rejects: an Xid line that cannot be read, an event without time or host,
    a journal entry that is cut.

    Times without zone need the option `tz`, without year `year`, since boot `boot_ts`; none is ever
    guessed. `year` is that of the file's first line: a stamp more than a day before the first one
    belongs to the next year, so a file may turn a year once. In the hour that a clock change
    repeats the first reading is taken.

    400,000 ordinary lines per CPU second, 78,000 where each is an XID, 47,000 where it is in JSON.

    Not read: binary journals, journalctl -o export, verbose and json-pretty, dmesg -d and -H, gzip
    inside tar, amdgpu's register dumps and ring timeouts.
    """
    lines = _stamped(lines)
    whole = lines
    text = pl.col("text")
    is_candidate = text.str.contains_any(list(MARKERS)) | may_be_event(text)
    found = find_events(split_stamps(lines.filter(is_candidate)))
    found = found.filter(
        pl.col("event").is_not_null() | pl.col("is_unreadable") | pl.col("is_broken")
    )
    anchor = _anchor(lines, context)
    found = place_times(found, context.options, anchor)
    held_from = None if context.at_end else _held_from(whole, found, context, anchor)
    if held_from is not None:
        found = found.filter(pl.col("line_no") < held_from)
        lines = lines.filter(pl.col("line_no") < held_from)
    found = _judged(found, context.options.get("node"))
    is_good = pl.col("reason").is_null()
    rows = _with_lost_gpus(found.filter(is_good), whole).with_columns(_REPEAT_NO)
    cluster = pl.lit(context.options["cluster"]).alias("cluster")
    return Parsed(
        tables={
            "gpu_event": rows.select(*_COLUMNS, cluster),
            "kernel_log_day": day_rows(lines, rows, context.options, anchor).with_columns(cluster),
        },
        rejects=rejects(found.filter(~is_good), pl.col("reason")),
        skipped=lines.height - found.height,
        held_from=held_from,
    )


def _stamped(lines: pl.DataFrame) -> pl.DataFrame:
    """The further lines of a message, indented by dmesg and journalctl, get the stamp of the first."""
    text = pl.col("text")
    is_further = text.str.contains(r"^\s+NVRM: ")
    if not lines.select(is_further.any()).item():
        return lines
    heads = (
        text.shift(step).str.extract(rf"^(.*)NVRM: {_LOST_GPU}", 1)
        for step in range(1, _LOST_GPU_LINES)
    )
    joined = pl.concat_str(pl.coalesce(*heads), text.str.strip_chars_start())
    return lines.with_columns(pl.when(is_further).then(joined).otherwise(text).fill_null(text))


def _judged(found: pl.DataFrame, node: str | None) -> pl.DataFrame:
    """Events with their host and, in `reason`, why they cannot be kept; NULL where they can."""
    reason = (
        pl.when("is_broken").then(pl.lit(_BROKEN))
        .when("is_unreadable").then(pl.lit(_UNREADABLE))
        .when(pl.col("problem").is_not_null()).then("problem")
        .when(pl.col("node").is_null()).then(pl.lit(_NO_NODE))
    )  # fmt: skip
    return found.with_columns(
        pl.coalesce("node", pl.lit(node, pl.String)).alias("node")
    ).with_columns(reason.alias("reason"))


def _anchor(lines: pl.DataFrame, context: Context) -> pl.Series:
    """The stamp from which years are counted: the file's first line, or, where that is a heading,
    the first one in sight while the file's beginning is.
    """
    anchor = first_stamp(pl.DataFrame({"text": [context.first_line]})).drop_nulls()
    if anchor.is_empty() and lines.height and lines["line_no"][0] == 1:
        anchor = first_stamp(lines).drop_nulls()
    return anchor


def _held_from(
    lines: pl.DataFrame, events: pl.DataFrame, context: Context, anchor: pl.Series
) -> int | None:
    """Where the part begins that waits for the next chunk: events of the last minute, and the lines
    that a message about a lost GPU may have begun with. It cuts no run of equal lines.
    """
    if lines.is_empty():
        return None
    held = int(lines["line_no"][-1]) + 1
    tail = place_times(split_stamps(lines.tail(_LAST_LINES)), context.options, anchor)
    ends: list[datetime] = tail["ts"].drop_nulls().to_list()
    times = events.drop_nulls("ts").select("line_no", "ts").reverse()
    since: datetime | None = None
    for line_no, ts in times.iter_rows():
        if since is None:
            since = (ends[-1] if ends else ts) - _HELD
        if ts < since:
            if line_no <= held - _LOST_GPU_LINES:
                break
            since = ts - _HELD
        held = line_no
    return max(int(lines["line_no"][0]), held - _LOST_GPU_LINES + 1)


def _with_lost_gpus(rows: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
    """The address from up to two lines before, where a GPU's loss is told in three lines."""
    is_end = pl.col("message").str.contains(_LOST_GPU_END, literal=True)
    ends = rows.filter(is_end & pl.col("pci_bus_id").is_null())["line_no"]
    if ends.is_empty():
        return rows
    steps = range(1, _LOST_GPU_LINES)
    near = pl.concat([ends - step for step in steps]).unique()
    begins = split_stamps(lines.filter(pl.col("line_no").is_in(near.to_list()))).select(
        "line_no",
        pl.col("node").alias("host"),
        address(pl.col("message").str.extract(_LOST_GPU).str.strip_chars(".")).alias("lost"),
    ).drop_nulls("lost")  # fmt: skip
    told = pl.concat([begins.with_columns(pl.col("line_no") + step) for step in steps])
    told = told.unique("line_no", keep="first", maintain_order=True)
    rows = rows.join(told, on="line_no", how="left", maintain_order="left")
    same = pl.col("host").is_null() | (pl.col("host") == pl.col("node"))
    is_told = is_end & pl.col("pci_bus_id").is_null() & same
    return rows.with_columns(
        pl.when(is_told).then("lost").otherwise("pci_bus_id").alias("pci_bus_id")
    )
