"""What `nvidia-smi dmon` prints."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..scheduler._slurm_time import is_zone
from ..tables.gpu_sample import GPU_SAMPLE
from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._sample_tables import stated_gpus, timed_tables
from ._scrape_pages import NAME_TIME, read_time

_OUTPUTS = (GPU_SAMPLE, GPU_SAMPLE_EXTRA)
_OPTIONS = (
    Option("node", "host it ran on"),
    Option("gpus", "UUIDs of the node's GPUs in the order of nvidia-smi -L, separated by commas: dmon prints indexes"),
    Option("tz", "zone of the machine, as an IANA name, for -o D and T: dmon prints local time without it"),
    Option("ts", "time of the first round, RFC 3339 with zone or epoch s, where the lines name no day"),
    Option("delay_s", "what -d was given: the time from round to round, of lines without a time"),
    Option("fields", "the names of the columns, separated by commas, for --format csv,noheader"),
)  # fmt: skip
_NO_NODE = "no host: state it with --set node=NAME"
_NO_GPU = "GPU {} has no UUID: state --set gpus=GPU-…,GPU-… in the order of nvidia-smi -L"
_NO_HEAD = (
    "no head line (# gpu …) before it: state --set fields=gpu,pwr,… for --format csv,noheader"
)
_CUT = "{} values where the head has {} names: is the line cut?"
_NOT_A_ROW = "{!r} is neither a number nor '-': is the line damaged?"
_PROCESS = "nvidia-smi pmon prints processes, of which nothing is kept: take dmon for its GPUs"
_NO_ZONE = (
    "the time has no zone: state that of the machine with --set tz=UTC or --set tz=Europe/Berlin"
)
_NO_TIME = (
    "no time: take -o DT, or state --set ts=2026-03-20T12:23:43Z --set delay_s=1 as -d was given"
)
_NO_DATE = "-o T prints no day: state the first round's time with --set ts=2026-03-20T12:23:43Z"
_BAD_TIME = "{!r} is no time of dmon: expected 20260320 12:23:43"
_END = "the file ends inside this line: its last number may be cut"
_SNIFF = re.compile(rb"^\s*#\s*(?:Date[\s,]+)?(?:Time[\s,]+)?gpu[\s,]+[a-z]", re.MULTILINE)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")
_CLOCK = ("date", "time")
_UNITS = {"idx", "hh:mm:ss", "yyyymmdd"}
_HALF_DAY = timedelta(hours=12)


def _columns() -> Mapping[str, tuple[str, str, float]]:
    text = Path(__file__).with_name("nvidia_smi_dmon.toml").read_text(encoding="utf-8")
    return {tag: tuple(said) for tag, said in tomllib.loads(text)["columns"].items()}


_COLUMNS = _columns()


def _looks_like_dmon(head: bytes, _file_name: str) -> bool:
    return bool(_SNIFF.search(head))


@dataclass(slots=True)
class _Text:
    """Where the reading of a text stands: the head in force, the round, and the day of -o T."""

    context: Context
    names: list[str]
    units: Mapping[str, str] = field(default_factory=dict)
    round_no: int = 0
    seen: set[int] = field(default_factory=set)
    last: datetime | None = None
    skipped: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


@source(
    outputs=_OUTPUTS,
    reads="document",
    options=_OPTIONS,
    name_facts=NAME_TIME,
    sniff=_looks_like_dmon,
)
def nvidia_smi_dmon(content: bytes, context: Context) -> Parsed:
    """Output of `nvidia-smi dmon`, drivers 418 to 590, as text and as `--format csv`, with any of `-s`,
    `--gpm-metrics` and `-o`: columns by their heads, which repeat.

    dmon names GPUs by index and prints no host: `gpus` and `node` state them. Times of `-o DT` are local
    (`tz`); those of `-o T` need the day (`ts`), lines without either `ts` and `delay_s`. '-' is NULL.

    A column that nvidia_smi_dmon.toml does not have, or that names another unit, is kept in
    gpu_sample_extra under its own name (pviol, tviol, ccpm). sbecc and dbecc are the counts of the GPU's life.
    Output of `nvidia-smi pmon` is refused: it prints processes.

    About 5,000 lines of 17 columns per CPU second: the format is read line by line.
    """
    lines = content.decode("utf-8", "replace").split("\n")
    stated = [name.strip() for name in context.options.get("fields", "").split(",")]
    text = _Text(context, stated if stated != [""] else [])
    samples = [sample for n, line in enumerate(lines[:-1], 1) for sample in _line(n, line, text)]
    if lines[-1].strip():
        text.refused.append((len(lines), _END))
    refused = [(line_no, reason, lines[line_no - 1]) for line_no, reason in text.refused]
    return Parsed(
        tables=timed_tables(samples, _OUTPUTS, context.options["cluster"]),
        rejects=pl.DataFrame(refused, schema=REJECTS_SCHEMA, orient="row"),
        skipped=text.skipped,
    )


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("#")
    return [cell.strip() for cell in line.split(",")] if "," in line else line.split()


def _line(line_no: int, line: str, text: _Text) -> Iterator[tuple[object, ...]]:
    """Samples of one line; a head, a blank line or a refused one has none."""
    cells = _cells(line)
    low = [cell.lower() for cell in cells]
    if not cells or cells == [""]:
        text.skipped += 1
    elif "gpu" in low[:3]:
        text.names, text.units = low, {}
        text.skipped += 1
    elif _UNITS.intersection(low[:3]) and len(cells) == len(text.names):
        text.units = dict(zip(text.names, cells, strict=True))
        text.skipped += 1
    else:
        row = _row(cells, text)
        if isinstance(row, str):
            text.refused.append((line_no, row))
        else:
            yield from _samples(line_no, *row, text)


def _row(cells: Sequence[str], text: _Text) -> tuple[int, datetime, dict[str, str]] | str:
    """GPU, time and values of a line, or why it has none."""
    values = _values(cells, text)
    if isinstance(values, str):
        return values
    gpu = int(values.pop("gpu"))
    if "node" not in text.context.options:
        return _NO_NODE
    if gpu >= len(stated_gpus(text.context)):
        return _NO_GPU.format(gpu)
    if gpu in text.seen:
        text.round_no, text.seen = text.round_no + 1, set()
    text.seen.add(gpu)
    clock = " ".join(values.pop(name) for name in _CLOCK if name in values)
    ts = _stamped(clock, text) if clock else _counted(text)
    return ts if isinstance(ts, str) else (gpu, ts, values)


def _values(cells: Sequence[str], text: _Text) -> dict[str, str] | str:
    """The cells by the names of the head, or why they are none."""
    if not text.names:
        return _NO_HEAD
    if "pid" in text.names:
        return _PROCESS
    if len(cells) != len(text.names):
        return _CUT.format(len(cells), len(text.names))
    values = dict(zip(text.names, cells, strict=True))
    read = [cell for name, cell in values.items() if name not in _CLOCK]
    wrong = next((cell for cell in read if cell != "-" and not _NUMBER.fullmatch(cell)), None)
    if wrong is not None or not values.get("gpu", "").isdigit():
        return _NOT_A_ROW.format(wrong or values.get("gpu"))
    return values


def _stamped(clock: str, text: _Text) -> datetime | str:
    """The time that a line prints, UTC without zone."""
    zone = text.context.options.get("tz")
    if zone is None or not is_zone(zone):
        return _NO_ZONE if zone is None else f"tz={zone} is no time zone name such as UTC"
    bare = re.sub(r"[-/](?=\d)", "", clock)
    first = read_time(text.context.options.get("ts", ""))
    if " " not in bare:
        if first is None:
            return _NO_DATE
        day = text.last or first.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        bare = f"{day:%Y%m%d} {bare}"
    try:
        local = datetime.strptime(bare, "%Y%m%d %H:%M:%S")  # noqa: DTZ007  # the zone is stated
    except ValueError:
        return _BAD_TIME.format(clock)
    if " " not in clock and text.last and local < text.last - _HALF_DAY:
        local += timedelta(days=1)
    text.last = local
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None)


def _counted(text: _Text) -> datetime | str:
    """The first round's time and the delays since."""
    first = read_time(text.context.options.get("ts", ""))
    delay = text.context.options.get("delay_s", "0" if text.round_no == 0 else "")
    if first is None or not _NUMBER.fullmatch(delay):
        return _NO_TIME
    return first + timedelta(seconds=text.round_no * float(delay))


def _samples(
    line_no: int, gpu: int, ts: datetime, values: Mapping[str, str], text: _Text
) -> Iterator[tuple[object, ...]]:
    """The values as samples of series (SAMPLES_SCHEMA)."""
    who = {
        "Hostname": text.context.options["node"],
        "gpu": str(gpu),
        "UUID": stated_gpus(text.context)[gpu],
    }
    labels = ",".join(f"{key}={json.dumps(value)}" for key, value in who.items())
    time = ts.replace(tzinfo=UTC).timestamp()
    for tag, value in values.items():
        unit, name, factor = _COLUMNS.get(tag, ("", tag, 1))
        if unit and text.units.get(tag, unit) != unit:
            name, factor = tag, 1
        number = None if value == "-" else float(value) * factor
        yield (line_no, name, labels, number, "N/A" if value == "-" else value, time)
