"""Facts in NCCL's messages: one pattern per kind, over the spellings of NCCL 2.7 to 2.30 and RCCL.

A pattern's groups are columns of `nccl_log_event`, or, with a suffix, what a column is made of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from ._operation_names import operation

_COMM = r"(?:comm (?P<comm_pointer>0x[0-9a-f]+))"
_NAME = r"(?P<function_name>[A-Za-z]+)"
# Numbers of ncclDataType_t (nccl.h); 10 and 11 since 2.24.
DTYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "bfloat16", "float8_e4m3", "float8_e5m2",
)  # fmt: skip
DTYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
# Numbers of NCCL_ALGO_* and NCCL_PROTO_*, which versions before 2.24 print (nccl_common.h).
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
_MBPS = 125_000.0


@dataclass(frozen=True, slots=True)
class Fact:
    """`mark` is text that every message of the kind holds; a message with `mark` that does not fit
    `pattern` is torn or cut where `strict`, and says something else where not.
    """

    event: str
    mark: str
    pattern: str
    strict: bool = False


_MEMBER = (
    rf"{_COMM} rank (?P<comm_rank>\d+) n[rR]anks (?P<n_ranks>\d+) cudaDev (?P<cuda_device>\d+)"
)
_INIT = (
    rf"{_MEMBER}"
    r"(?: nvmlDev (?P<nvml_device>\d+))? busId (?P<bus>[0-9a-f]+)"
    r"(?: commId (?P<comm_hash>0x[0-9a-f]+))?(?: parent (?P<parent_pointer>0x[0-9a-f]+))?"
    r"(?: \w+ -?\w+)*? ?- (?P<phase>[A-Z][a-z]+ [A-Z]+)"
)
FACTS = (
    # init_start, init_complete, destroy_complete, abort_complete, ...
    Fact("phase", " busId ", _INIT, strict=True),
    # NCCL 2.4 to 2.6 name no bus.
    Fact("phase", " nvmlDev ", rf"{_MEMBER} nvmlDev (?P<nvml_device>\d+) - (?P<phase>Init COMPLETE)"),
    Fact(
        "init_timing", "Init timings - ",
        r"Init timings - \w+: rank (?P<comm_rank>\d+) nranks (?P<n_ranks>\d+) "
        r"total (?P<duration_s>\d+\.\d+) \(.*\)",
        strict=True,
    ),
    Fact(
        "operation", ": opCount ",
        rf"^{_NAME}: opCount (?P<seq_hex>[0-9a-f]+) sendbuff \S+ recvbuff \S+ "
        r"count (?P<element_count>\d+) datatype (?P<dtype_number>\d+) op \d+ root (?P<root>-?\d+) "
        rf"{_COMM} \[nranks=(?P<n_ranks>\d+)\] stream \S+(?:.* globalrank (?P<rank>\d+))?",
        strict=True,
    ),
    Fact(
        "tuning", " Bytes -> Algo ",
        rf"^{_NAME}: (?P<size_bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)"
        rf"(?: channel\{{Lo\.\.Hi\}}=\{{(?P<channel>\d+)\.\.(?P<last_channel>\d+)\}}| time \S+)"
        rf"(?: {_COMM})?",
        strict=True,
    ),
    Fact(
        "channel", " via ",
        r"(?:Channel|Ring) (?P<channel>\d+)(?:/\d+)? : (?P<left>\d+)(?:\[\w+\])? -> "
        r"(?P<right>\d+)(?:\[\w+\])? (?:\[(?P<direction>send|receive)\] )?"
        rf"via (?P<transport>\S.*?)(?: {_COMM}.*)?\s*$",
    ),
    Fact(
        "ring", "Channel ",
        r"^Channel (?P<channel>\d+)/\d+ : +(?P<ring_text>\d+(?: +\d+)*)\s*$",
    ),
    Fact(
        "channel_count", " coll channels",
        rf"(?:{_COMM}, )?(?P<channel_count>\d+) coll channels, .*?(?P<p2p_channel_count>\d+) p2p channels",
        strict=True,
    ),
    Fact("bootstrap", "Bootstrap", r"^Bootstrap ?: Using (?:\[0\])?(?P<device>[\w.-]+):(?P<address>[0-9A-Fa-f.:]+)(?:%[\w.-]+)?<\d+>"),
    Fact("network", "Using network ", r"Using network (?P<transport>\S.*?)\s*$"),
    Fact("network", "NET/", r"^NET/(?P<transport>\w+) ?: Using (?P<device_text>\[\d+\]\S+.*?)\s*$"),
    Fact("network_missing", "No device found", r"^NET/(?P<transport>\w+) ?: No device found"),
    Fact(
        "link_speed_change", "speed change detected",
        r"(?P<device>[A-Za-z0-9_.-]+(?::\d+)?) speed change detected: (?P<from_mbps>\d+) -> "
        r"(?P<to_mbps>\d+) Mbps",
        strict=True,
    ),
    Fact(
        "device_failed", "permanently failed",
        r"(?:device (?P<device>[\w.:-]+) as )?permanently failed",
    ),
    Fact("version", "CCL version", r"[NR]CCL version ?:? ?(?P<comm_lib_version>\d+\.\d+[\w.+:-]*)"),
    Fact(
        "watchdog_timeout", "WorkNCCL(",
        r"^(?:\[PG[^\]]*\] )?\[Rank (?P<comm_rank>\d+)\] Watchdog caught collective operation timeout: "
        r"WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<function_name>\w+)"
        r"(?:, NumelIn=(?P<element_count>\d+), NumelOut=\d+)?, Timeout\(ms\)=(?P<timeout_ms>\d+)\) "
        r"ran for (?P<ran_ms>\d+) milliseconds",
    ),
    Fact(
        "watchdog_state", "last enqueued",
        r"\[PG (?:ID \d+ PG GUID )?(?P<pg_name>[^\s(\]]+)(?:\((?P<pg_desc>[^)]*)\))? Rank (?P<comm_rank>\d+)\]"
        r".*?(?:work(?: sequence id)?: ?(?P<seq>\d+),? .*?)?"
        r"last enqueued (?:NCCL )?work: (?P<last_enqueued_seq>-?\d+), "
        r"last completed (?:NCCL )?work: (?P<last_completed_seq>-?\d+)",
    ),
)  # fmt: skip


def find_facts(messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(facts, torn): messages with `event` and the groups of its pattern, and messages that hold
    a kind's mark and not its form.
    """
    found: list[pl.DataFrame] = []
    torn: list[pl.DataFrame] = []
    left = messages
    for fact in FACTS:
        marked = left.filter(pl.col("message").str.contains(fact.mark, literal=True))
        if marked.is_empty():
            continue
        fits = pl.col("message").str.contains(fact.pattern)
        good, bad = marked.filter(fits), marked.filter(~fits)
        groups = good.with_columns(
            pl.col("message").str.extract_groups(fact.pattern).alias("groups"),
            pl.lit(fact.event).alias("event"),
        )
        if groups.height:
            own = [n for n in re.findall(r"\?P<(\w+)>", fact.pattern) if n in groups.columns]
            found.append(groups.drop(own).unnest("groups"))
        if fact.strict:
            torn.append(bad.with_columns(pl.lit(fact.event).alias("event")))
            bad = bad.clear()
        taken = pl.concat([good, *torn[-1:]], how="diagonal") if fact.strict else good
        left = left.join(taken.select("line_no", "part"), on=["line_no", "part"], how="anti")
    warnings = left.filter(pl.col("level") == "WARN").with_columns(pl.lit("warning").alias("event"))
    empty = messages.clear().with_columns(pl.lit(None, pl.String).alias("event"))
    facts = pl.concat([empty, *found, warnings], how="diagonal")
    return facts, pl.concat([empty, *torn], how="diagonal")


def typed(facts: pl.DataFrame) -> pl.DataFrame:
    """Columns of `nccl_log_event` out of the groups' texts."""
    groups = {name for fact in FACTS for name in re.findall(r"\?P<(\w+)>", fact.pattern)}
    absent = sorted(groups - set(facts.columns))
    whole = facts.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    return whole.with_columns(*_who(), *_what())


def _whole(name: str, kind: pl.DataType | None = None) -> pl.Expr:
    return pl.col(name).cast(kind or pl.Int32(), strict=False)


def _real(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64, strict=False)


def _who() -> list[pl.Expr]:
    """Process, device, communicator, and the two ends of a channel."""
    is_receive = pl.col("direction") == "receive"
    left, right = _whole("left"), _whole("right")
    end = pl.when(is_receive).then(right).otherwise(left)
    phase = pl.col("phase").str.to_lowercase().str.replace(" ", "_")
    return [
        *(_whole(name).alias(name) for name in ("n_ranks", "nvml_device", "root", "rank")),
        *(_whole(name, pl.Int64()).alias(name) for name in ("pid", "tid")),
        pl.coalesce(phase, "event").alias("event"),
        pl.coalesce(_whole("comm_rank"), end).alias("comm_rank"),
        pl.when(is_receive).then(left).otherwise(right).alias("peer_comm_rank"),
        pl.coalesce(_whole("cuda_device"), _whole("cuda")).alias("cuda_device"),
        _hash(pl.col("comm_hash")).alias("comm_id"),
        pci_bus_id(pl.col("bus")).alias("pci_bus_id"),
    ]


def _what() -> list[pl.Expr]:
    """Channels, networks, operations and their figures."""
    dtype = _whole("dtype_number")
    numbers, text = range(len(DTYPES)), pl.String
    width = dtype.replace_strict(numbers, DTYPE_BYTES, default=None, return_dtype=pl.Int64)
    elements = _whole("element_count", pl.Int64())
    ring = pl.col("ring_text").str.strip_chars().str.replace_all(" +", " ").str.split(" ")
    channels = _whole("last_channel") - _whole("channel") + 1
    return [
        *(_whole(name).alias(name) for name in ("channel", "p2p_channel_count")),
        *(_whole(n, pl.Int64()).alias(n) for n in ("last_enqueued_seq", "last_completed_seq")),
        pl.col("transport").str.strip_chars().alias("transport"),
        pl.coalesce(_devices(pl.col("device_text")), "device").alias("device"),
        ring.cast(pl.List(pl.Int32), strict=False).alias("ring_ranks"),
        pl.coalesce(_whole("channel_count"), channels).alias("channel_count"),
        operation(pl.col("function_name")).alias("function"),
        pl.coalesce(_hexadecimal(pl.col("seq_hex")), _whole("seq", pl.Int64())).alias("seq"),
        elements.alias("element_count"),
        pl.coalesce(_whole("size_bytes", pl.Int64()), elements * width).alias("size_bytes"),
        dtype.replace_strict(numbers, DTYPES, default=None, return_dtype=text).alias("dtype"),
        _named(pl.col("algorithm"), ALGORITHMS).alias("algorithm"),
        _named(pl.col("protocol"), PROTOCOLS).alias("protocol"),
        (_real("from_mbps") * _MBPS).alias("from_bytes_per_s"),
        (_real("to_mbps") * _MBPS).alias("to_bytes_per_s"),
        pl.coalesce(_real("duration_s"), (_real("ran_ms") / 1e3).round(3)).alias("duration_s"),
        (_real("timeout_ms") / 1e3).round(3).alias("timeout_s"),
    ]


def pci_bus_id(bus: pl.Expr) -> pl.Expr:
    """NCCL writes 0000:4c:00.0 as a number: 4c000. Nine digits: domain, bus, device, function."""
    nine = bus.str.zfill(9)
    place = pl.format(
        "{}:{}:{}.{}",
        nine.str.slice(0, 4), nine.str.slice(4, 2), nine.str.slice(6, 2), nine.str.slice(8, 1),
    )  # fmt: skip
    return pl.when(nine.str.len_chars() == 9).then(place)


def _hash(text: pl.Expr) -> pl.Expr:
    digits = text.str.strip_prefix("0x").str.zfill(16)
    return pl.when(digits.str.len_chars() == 16).then("0x" + digits)


def _hexadecimal(text: pl.Expr) -> pl.Expr:
    return text.str.to_integer(base=16, strict=False)


def _devices(text: pl.Expr) -> pl.Expr:
    """`[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>` as `mlx5_0:1/IB mlx5_1:1/IB`."""
    listed = text.str.replace(r"\s*;.*$", "").str.extract_all(r"\[\d+\]\S+")
    return listed.list.eval(pl.element().str.replace(r"^\[\d+\]", "")).list.join(" ")


def _named(text: pl.Expr, names: tuple[str, ...]) -> pl.Expr:
    number = text.cast(pl.Int32, strict=False)
    named = number.replace_strict(range(len(names)), names, default=None, return_dtype=pl.String)
    return pl.coalesce(named, text.str.to_uppercase())
