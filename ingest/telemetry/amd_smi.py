"""What amd-smi and rocm-smi print of GPUs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.gpu_sample import GPU_SAMPLE
from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._amd_smi_readings import Found, Reading, read
from ._sample_tables import stated_gpus, timed_tables
from ._scrape_pages import NAME_TIME, read_time

_OUTPUTS = (GPU_SAMPLE, GPU_SAMPLE_EXTRA)
_OPTIONS = (
    Option("node", "host it ran on"),
    Option("ts", "time of the output, RFC 3339 with zone or epoch s, where it states none (without --watch)"),
    Option("gpus", "UUIDs of the node's GPUs in the order of amd-smi list, separated by commas; without them GPUs are named node/index, as those of omnistat are"),
)  # fmt: skip
_NO_NODE = "no host: state it with --set node=NAME"
_NO_TIME = "the output says no time: state --set ts=2026-03-20T12:23:43Z"
_AGAIN = "GPU {} a second time without a time of its own: write rounds with --watch, or a file each"
_BAD_TIME = "timestamp {!r} is no time: expected seconds since 1970 or RFC 3339 with zone"
_NO_GPU = "GPU {} has no UUID: gpus names {}; state those of all, in the order of amd-smi list"
_PARTITION = "XCP {} is a compute partition that shares the GPU's sensors: only whole GPUs are read"
_UNIT = "{} is in {!r} where {!r} is expected: this value is not kept"
_VALUE = re.compile(r"\(?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) ?(\S*?)\)?")
_SNIFF = re.compile(
    rb'"(?:socket_power|gfx_activity|power_usage|hotspot_temperature|total_vram|Average Graphics Package Power \(W\)|'
    rb'Current Socket Graphics Package Power \(W\)|GPU use \(%\)|Temperature \(Sensor \w+\) \(C\))"\s*:'
    rb"|^(?:timestamp,)?gpu,.*\b(?:socket_power|gfx_activity|hotspot|power_usage|hotspot_temperature|total_vram)\b"
    rb"|^device,.*(?:GPU use \(%\)|Package Power|Temperature \(Sensor|VRAM Total)"
    rb"|^\s*(?:TIMESTAMP +)?GPU +(?:XCP +)?(?:POWER|GPU_T|GFX_CLK|GFX%|MEM%|VRAM_USED|PVIOL)\b"
    rb"|^GPU: \d+\r?\n +(?:USAGE|POWER|CLOCK|TEMPERATURE|MEM_USAGE):",
    re.MULTILINE,
)
_MODELS = ("card series", "market_name")


def _names() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    text = Path(__file__).with_name("amd_smi.toml").read_text(encoding="utf-8")
    return {
        form: {name: tuple(said) for name, said in names.items()}
        for form, names in tomllib.loads(text).items()
    }


_NAMES = _names()


def _looks_like_amd_smi(head: bytes, _file_name: str) -> bool:
    return bool(_SNIFF.search(head))


@source(
    outputs=_OUTPUTS,
    reads="document",
    options=_OPTIONS,
    name_facts=NAME_TIME,
    sniff=_looks_like_amd_smi,
)
def amd_smi(content: bytes, context: Context) -> Parsed:
    """Output of `amd-smi metric` and `amd-smi monitor` (ROCm 6.1 to 7) and of `rocm-smi` (ROCm 5 to 7):
    text (not rocm-smi's), --json and --csv, once or watched. Signals are those of AMD's exporters.

    None of them names its host, only watched output its time: `node` and `ts` state them. GPUs are named
    by place (node/index, as omnistat's are) unless `gpus` gives their UUIDs. A temperature is that of the die's
    edge, where there is a sensor, else of its hottest spot.

    Kept: what amd_smi.toml names. Not kept: values of single dies, engines and lists, fans, voltages, GTT, and
    VRAM_USAGE of the monitor's table, in tenths of a GB. Compute partitions but the first are refused.

    About 7,600 lines of 159 columns per CPU second: the formats are read GPU by GPU.
    """
    text = content.decode("utf-8", "replace")
    found = read(text)
    times: set[tuple[int, str]] = set()
    samples = [s for one in found.readings for s in _samples(one, context, times, found)]
    lines = text.splitlines()
    refused = [(line_no, reason, lines[line_no - 1]) for line_no, reason in sorted(found.refused)]
    return Parsed(
        tables=timed_tables(samples, _OUTPUTS, context.options["cluster"]),
        rejects=pl.DataFrame(refused, schema=REJECTS_SCHEMA, orient="row"),
        skipped=found.skipped,
    )


def _samples(
    one: Reading, context: Context, seen: set[tuple[int, str]], found: Found
) -> Iterator[tuple[object, ...]]:
    """The reading's values as samples of series (SAMPLES_SCHEMA)."""
    names = {name: _NAMES[one.form][name] for name in one.values if name in _NAMES[one.form]}
    ts = _time(one, context)
    problem = ts if isinstance(ts, str) else _problem(one, context)
    if one.stamp is None and not problem and any((one.gpu, name) in seen for name in names):
        problem = _AGAIN.format(one.gpu)
    if problem or isinstance(ts, str):
        found.refused.append((one.line_no, problem or ""))
        return
    if one.stamp is None:
        seen.update((one.gpu, name) for name in names)
    labels = _labels(one, context)
    time = ts.replace(tzinfo=UTC).timestamp()
    has_edge = any(_number(one.values[n]) for n, (_, to) in names.items() if "edge" in to)
    for name, (unit, exported) in names.items():
        number = _number(one.values[name])
        if number and unit and number[1] and number[1].strip("°").casefold() != unit.casefold():
            found.refused.append((one.line_no, _UNIT.format(name, number[1], unit)))
        elif has_edge and exported == "gpu_junction_temperature":
            yield (one.line_no, name, labels, number and number[0], one.values[name], time)
        elif number or not has_edge or "temperature" not in exported:
            value, printed = (number[0], one.values[name]) if number else (None, "N/A")
            yield (one.line_no, exported, labels, value, printed, time)


def _number(text: str) -> tuple[float, str] | None:
    """Number and unit of a text; None where it is neither, as N/A."""
    read = _VALUE.fullmatch(text.strip())
    return (float(read[1]), read[2]) if read else None


def _time(one: Reading, context: Context) -> datetime | str:
    """When it was taken, or why that is not known."""
    if one.stamp is None:
        return read_time(context.options.get("ts", "")) or _NO_TIME
    return read_time(one.stamp) or _BAD_TIME.format(one.stamp)


def _problem(one: Reading, context: Context) -> str | None:
    gpus = stated_gpus(context)
    if "node" not in context.options:
        return _NO_NODE
    if one.values.get("xcp", "0") not in ("0", "N/A"):
        return _PARTITION.format(one.values["xcp"])
    return _NO_GPU.format(one.gpu, len(gpus)) if gpus and one.gpu >= len(gpus) else None


def _labels(one: Reading, context: Context) -> str:
    """Whose reading it is, as labels of an exporter's series."""
    gpus = stated_gpus(context)
    who = {"Hostname": context.options["node"]}
    who |= {"gpu": str(one.gpu), "UUID": gpus[one.gpu]} if gpus else {"card": str(one.gpu)}
    model = next((one.values[name] for name in _MODELS if name in one.values), None)
    return ",".join(
        f"{key}={json.dumps(value)}"
        for key, value in (who | ({"modelName": model} if model else {})).items()
    )
