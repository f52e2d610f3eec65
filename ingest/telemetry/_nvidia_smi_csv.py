"""`nvidia-smi --query-gpu=… --format=csv[,nounits][,noheader]`: one line per GPU and run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ._nvidia_smi_blocks import Block, Capture, Cell, Gpu, csv_names
from ._nvidia_smi_values import no_value, read_index

_NAME = re.compile(r"([A-Za-z][\w.]*)(?: \[([^\]]+)\])?")
_STAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_KNOWN = csv_names() | {"timestamp", "index", "hostname", "count"}
_UUIDS = ("uuid", "gpu_uuid")
_NO_UUID = (
    "no column uuid: add it to --query-gpu, or state the UUIDs of the host's GPUs with --set gpus=GPU-…,GPU-… "
    "where there is a column index; a place in a host is no identity"
)


@dataclass(frozen=True, slots=True)
class Header:
    """Names of the columns, and the unit that each header names; "" where it names none, as that of
    temperatures, or where there is no header.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]


def read_header(text: str) -> Header | None:
    """The header line of --query-gpu; None where `text` is none. Other queries (--query-compute-apps)
    have headers that look alike but name processes.
    """
    if "," not in text or ("." not in text and "uuid" not in text):
        return None
    parts = [_NAME.fullmatch(part.strip()) for part in text.split(",")]
    found = [part for part in parts if part]
    names = tuple(part[1] for part in found)
    if len(found) < len(parts) or not {*names} & _KNOWN or "pid" in names:
        return None
    return Header(names, tuple(part[2] or "" for part in found))


def stated_header(names: str) -> Header:
    """The header of a file without one: the names as given to --query-gpu."""
    parts = tuple(name.strip() for name in names.split(","))
    return Header(parts, ("",) * len(parts))


def read_row(line_no: int, text: str, header: Header, gpus: Sequence[str] = ()) -> Capture:
    """A data line as a capture of one GPU; `gpus` are the UUIDs of its host by index, as stated."""
    fields = [part.strip() for part in text.split(",")]
    capture = Capture(line_no)
    if len(fields) != len(header.names):
        capture.problem = (
            f"{len(fields)} fields where the header has {len(header.names)}: the line is cut, or of "
            "another query"
        )
        return capture
    cells = {
        name: Cell(line_no, field, unit)
        for name, field, unit in zip(header.names, fields, header.units, strict=True)
    }
    at = read_index(cells["index"].text) if "index" in cells else None
    if {*_UUIDS}.isdisjoint(cells):
        if at is None or at >= len(gpus):
            capture.problem = _NO_UUID
            return capture
        cells["uuid"] = Cell(line_no, gpus[at], "")
    capture.local_ts = _stamp(cells.get("timestamp"))
    host = cells.get("hostname")
    capture.node = host.text if host and not no_value(host.text) else None
    capture.gpus.append(Gpu([Block(line_no, "csv", cells)], at))
    return capture


def _stamp(cell: Cell | None) -> datetime | None:
    """`2026/07/14 08:12:38.696`, local time."""
    found = _STAMP.fullmatch(cell.text) if cell else None
    if not found:
        return None
    clock = f"{found[1]}-{found[2]}-{found[3]}T{found[4]}:{found[5]}:{found[6]}"
    try:
        return datetime.fromisoformat(f"{clock}.{found[7] or '0':<06}")
    except ValueError:
        return None
