"""What `dcgmi dmon -e …` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.gpu_link_sample import GPU_LINK_SAMPLE
from ..tables.gpu_sample import GPU_SAMPLE
from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._dcgmi_table import FIELDS, Row, Table, epoch_s, read_table
from ._sample_tables import stated_gpus, timed_tables
from ._scrape_pages import NAME_TIME, read_time

_OUTPUTS = (GPU_SAMPLE, GPU_SAMPLE_EXTRA, GPU_LINK_SAMPLE)
_OPTIONS = (
    Option("node", "host it ran on"),
    Option("gpus", "UUIDs of the node's GPUs in the order of nvidia-smi -L, separated by commas: dmon prints indexes"),
    Option("ts", "time of the first round, RFC 3339 with zone or epoch s, of lines without a stamp"),
    Option("delay_ms", "what -d was given: the time from round to round, of lines without a stamp"),
)  # fmt: skip
_NO_NODE = "no host: state it with --set node=NAME"
_NO_TIME = (
    "no time: dmon prints none. State the first round's with --set ts=2026-03-20T12:23:43Z, or put a "
    "stamp before each line (dcgmi dmon … | ts '%Y-%m-%dT%H:%M:%S%z')"
)
_NO_DELAY = "the time of a later round is not known: state --set delay_ms=1000 as -d was given"
_NO_GPU = (
    "GPU {} has no UUID: state --set gpus=GPU-…,GPU-… in the order of nvidia-smi -L. An index is no "
    "identity: the same GPU, read by another source, would count twice"
)
_CUT = "the file ends inside this line: its last number may be cut"
# Labels under which series of other entities are known.
_LABELS = {"Switch": "nvswitch", "CPU": "cpu", "Core": "cpucore", "Link": "link"}
_SNIFF = re.compile(rb"^(?:\S+ +)?# ?Entity +[A-Z0-9]{4,}\b", re.MULTILINE)


def _looks_like_dmon(head: bytes, _file_name: str) -> bool:
    return bool(_SNIFF.search(head))


@source(
    outputs=_OUTPUTS,
    reads="document",
    options=_OPTIONS,
    name_facts=NAME_TIME,
    sniff=_looks_like_dmon,
)
def dcgmi_dmon(content: bytes, context: Context) -> Parsed:
    """Output of `dcgmi dmon`, DCGM 2 to 4: columns by their heads, which repeat and may change.

    dmon names GPUs by index, prints no time and no host: `gpus`, `ts` with `delay_ms`, and `node` state
    them, or a stamp before each line (RFC 3339 with zone, or seconds since 1970, as `ts` of moreutils
    writes them). Without the UUIDs a GPU's lines are rejects. Units are those of the fields, the line of
    units below the head is not needed. N/A, as in the first round of profiling fields, is NULL.

    MIG instances (GPU-I, by numbers of DCGM's own that name no GPU), switches and CPUs go to
    gpu_sample_extra, columns whose short name is not in dcgmi_dmon.toml too.

    28,000 lines of 10 columns per CPU second: the format is read line by line.
    """
    text = content.decode("utf-8", "replace")
    lines = text.split("\n")
    table = read_table(enumerate(lines[:-1], start=1))
    if lines[-1].strip():
        table.refused.append((len(lines), _CUT))
    rows = [row for row in table.rows if not _problem(row, table, context)]
    samples = [sample for row in rows for sample in _samples(row, context)]
    refused = [(line_no, reason, lines[line_no - 1]) for line_no, reason in sorted(table.refused)]
    return Parsed(
        tables=timed_tables(samples, _OUTPUTS, context.options["cluster"]),
        rejects=pl.DataFrame(refused, schema=REJECTS_SCHEMA, orient="row"),
        skipped=table.skipped,
    )


def _problem(row: Row, table: Table, context: Context) -> bool:
    """Is the row's host, time or GPU not known? Then it is refused."""
    reason = _NO_NODE if "node" not in context.options else None
    if row.entity == "GPU" and row.number >= len(stated_gpus(context)):
        reason = reason or _NO_GPU.format(row.number)
    if _time(row, context) is None:
        first = read_time(context.options.get("ts", ""))
        reason = reason or (_NO_DELAY if first and row.round_no else _NO_TIME)
    if reason:
        table.refused.append((row.line_no, reason))
    return bool(reason)


def _time(row: Row, context: Context) -> float | None:
    """Seconds since 1970: the line's own, or the first round's and the delay."""
    if row.stamp_s is not None:
        return row.stamp_s
    first = read_time(context.options.get("ts", ""))
    delay = context.options.get("delay_ms", "0" if row.round_no == 0 else "")
    if first is None or not re.fullmatch(r"\d{1,9}", delay):
        return None
    return epoch_s(first) + row.round_no * int(delay) / 1000


def _samples(row: Row, context: Context) -> Iterator[tuple[object, ...]]:
    """The row's values as samples of series (SAMPLES_SCHEMA)."""
    labels = {"Hostname": context.options["node"]}
    if row.entity == "GPU":
        labels |= {"gpu": str(row.number), "UUID": stated_gpus(context)[row.number]}
    else:
        labels[_LABELS.get(row.entity, "entity")] = f"{row.entity} {row.number}"
    text = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    time = _time(row, context)
    for tag, value in row.values:
        number = None if value == "N/A" else float(value)
        yield (row.line_no, FIELDS.get(tag, tag), text, number, value, time)
