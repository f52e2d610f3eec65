"""What amd-smi and rocm-smi print, in any of their forms, as readings of GPUs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# Heads: `gpu,…`, `timestamp,gpu,…` of amd-smi --csv, `device,…` of rocm-smi --csv.
CSV_HEAD = re.compile(r"(?:timestamp,)?(?:gpu|device),\S.*", re.IGNORECASE)
TABLE_HEAD = re.compile(r"\s*(?:TIMESTAMP\s+)?GPU\s+(?:XCP\s+)?[A-Z]\S.*")
GPU_LINE = re.compile(r"GPU: (\d{1,4})\s*")
_TREE_LINE = re.compile(r"( *)([A-Za-z][\w.\- ]*): ?(.*?)\s*")
_TABLE_CELL = re.compile(
    r"N/A|True|False|[\d.]+/ *[\d.]+ [KMGT]B|-?\d+(?:\.\d+)?(?: (?:W|°?C|MHz|%|[KMGT]B|[MG]b/s|GT/s|V|mV)(?!\S))?"
)
_CARD = re.compile(r"card(\d{1,4})")
_NOISE = re.compile(r"\s*|'CTRL' \+ 'C'.*|WARNING: .*|AMDSMI Tool: .*|=+.*=+|\s+\[?N/A.*")
_OTHER = (
    "no output of amd-smi metric, amd-smi monitor or rocm-smi that is read (text, --json, --csv)"
)
_CUT = "{} values where the head has {} names: is the line cut?"
_BAD_JSON = "JSON that cannot be read ({}): is the output cut?"
_NO_GPU = "{!r} is no GPU: expected its number or card0"
_MONITOR = {"xcp", "power_usage", "hotspot_temperature", "memory_temperature", "gfx", "mem_clock", "vram_used", "pviol", "single_bit_ecc"}  # fmt: skip


@dataclass(slots=True)
class Reading:
    """What one GPU's part of one output says: texts by name, in lower case."""

    line_no: int
    form: str
    gpu: int
    values: Mapping[str, str]
    stamp: str | None = None


@dataclass(slots=True)
class Found:
    """Readings, lines refused (line_no, reason), lines that rightly give none."""

    readings: list[Reading] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    skipped: int = 0

    def add(self, line_no: int, form: str, values: dict[str, str]) -> None:
        """One GPU's values, with its number and time among them."""
        stamp = values.pop("timestamp", None)
        text = values.pop("gpu", None) or values.pop("device", "")
        number = _CARD.fullmatch(text) or re.fullmatch(r"(\d{1,4})", text)
        if not number:
            self.refused.append((line_no, _NO_GPU.format(text)))
            return
        if form == "metric" and _MONITOR.intersection(values):
            form = "monitor"
        self.readings.append(Reading(line_no, form, int(number[1]), values, stamp))


def read(text: str) -> Found:
    """All readings of a file; it may hold several outputs, of one form."""
    found = Found()
    if text.lstrip()[:1] in ("{", "["):
        _read_json(text, found)
    elif re.search(r"^GPU: \d", text, re.MULTILINE):
        _read_tree(text, found)
    else:
        _read_tables(text, found)
    return found


def _read_json(text: str, found: Found) -> None:
    """Documents behind each other, as in watch mode."""
    decoder = json.JSONDecoder()
    at = len(text) - len(text.lstrip())
    while at < len(text):
        line_no = text.count("\n", 0, at) + 1
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            found.refused.append((line_no, _BAD_JSON.format(str(error)[:80])))
            return
        _read_document(line_no, document, found)
        rest = text[end:].lstrip(" \r\n\t,")
        at = len(text) - len(rest)


def _read_document(line_no: int, document: object, found: Found) -> None:
    if isinstance(document, dict) and any(_CARD.fullmatch(key) for key in document):
        for card, values in document.items():
            if _CARD.fullmatch(card) and isinstance(values, dict):
                texts = {key.lower(): str(value) for key, value in values.items()}
                found.add(line_no, "rocm", texts | {"device": card})
        return
    gpus = document.get("gpu_data", [document]) if isinstance(document, dict) else document
    for gpu in gpus if isinstance(gpus, list) else [gpus]:
        if isinstance(gpu, dict) and "gpu" in gpu:
            found.add(line_no, "metric", dict(_leaves(gpu, ())))
        else:
            found.refused.append((line_no, _OTHER))


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(name, text) of the plain values below `value`; lists hold values of parts of the GPU."""
    if isinstance(value, dict) and "value" in value and not isinstance(value["value"], dict):
        yield from _leaves(f"{value['value']} {value.get('unit', '')}".strip(), path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key).lower()))
    elif not isinstance(value, list):
        yield "_".join(path[1:] or path), str(value)


def _read_tree(text: str, found: Found) -> None:
    """`amd-smi metric`: a GPU, its headings, below them `NAME: VALUE`."""
    gpu: dict[str, str] = {}
    path: list[str] = []
    gpu_line, stamp = 0, ""
    for line_no, line in enumerate(text.splitlines(), start=1):
        start, branch = GPU_LINE.fullmatch(line), _TREE_LINE.fullmatch(line)
        if start:
            _close(found, gpu_line, gpu)
            gpu, gpu_line, path = {"gpu": start[1]}, line_no, []
            gpu |= {"timestamp": stamp} if stamp else {}
            continue
        found.skipped += 1
        if branch and branch[2].lower() == "timestamp":
            stamp = branch[3]
        elif branch and branch[1] and gpu:
            path = [*path[: len(branch[1]) // 4 - 1], branch[2].lower()]
            if branch[3]:
                gpu["_".join(path[1:] or path)] = branch[3]
    _close(found, gpu_line, gpu)


def _close(found: Found, line_no: int, gpu: dict[str, str]) -> None:
    if gpu:
        found.add(line_no, "metric", gpu)


def _read_tables(text: str, found: Found) -> None:
    """CSV, and the table of `amd-smi monitor`: heads, which repeat, and a line per GPU."""
    head: list[str] = []
    form = ""
    for line_no, line in enumerate(text.splitlines(), start=1):
        if CSV_HEAD.fullmatch(line.strip()):
            head = next(csv.reader([line.strip().lower()]))
            form = "rocm" if "device" in head else "metric"
        elif TABLE_HEAD.fullmatch(line) and "," not in line:
            head, form = line.lower().split(), "monitor"
        elif not _NOISE.fullmatch(line):
            if form:
                _add_row(found, line_no, line, head, form)
            else:
                found.refused.append((line_no, _OTHER))
            continue
        found.skipped += 1


def _add_row(found: Found, line_no: int, line: str, head: list[str], form: str) -> None:
    cells = _TABLE_CELL.findall(line) if form == "monitor" else next(csv.reader([line.strip()]))
    if len(cells) != len(head):
        found.refused.append((line_no, _CUT.format(len(cells), len(head))))
    else:
        found.add(line_no, form, dict(zip(head, cells, strict=True)))
