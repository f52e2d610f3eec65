"""The fleet's inventory: which GPUs should be there."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source
from fleetmark.table import TYPES

from ._gpu_series import canonical_uuid
from .tables.inventory_gpu import INVENTORY_GPU

_KINDS = {column.name: column.type for column in INVENTORY_GPU.columns}
_REQUIRED = ("node", "gpu_uuid")
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class _EntryError(ValueError):
    """The line is no entry; the message says why."""


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


_READ: Mapping[str, Callable[[str], object]] = {"INTEGER": int, "TIMESTAMP": _time, "VARCHAR": str}


def _looks_like_inventory(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return b"gpu_uuid" in first and b"node" in first and first[:1] not in b"#" + b"\x89"


@source(outputs=(INVENTORY_GPU,), sniff=_looks_like_inventory)
def inventory(lines: pl.DataFrame, context: Context) -> Parsed:
    """Inventory of GPUs: CSV with a header line (RFC 4180, one entry a line), or JSON lines.

    Fields are the columns of inventory_gpu under their names, in any order; `node` and `gpu_uuid`
    must be there, others may be missing or empty, unknown ones are passed over. `cluster` falls
    back to the option. Times are ISO 8601 dates or date-times, UTC where they state no zone.

    Line by line in Python, 90,000 entries a second of CPU: an inventory is small.
    """
    header = None if context.first_line.lstrip().startswith("{") else _header(context.first_line)
    entries: list[tuple[object, ...]] = []
    bad: list[tuple[int, str, str]] = []
    skipped = 0
    for line_no, text in lines.select("line_no", "text").iter_rows():
        is_header = header is not None and line_no == 1 and not _missing(header)
        if is_header or not text.strip():
            skipped += 1
            continue
        try:
            entries.append((line_no, *_entry(text, header, context.options["cluster"])))
        except _EntryError as error:
            bad.append((line_no, str(error), text))
    schema = {"line_no": pl.Int64(), **{name: TYPES[kind] for name, kind in _KINDS.items()}}
    return Parsed(
        tables={"inventory_gpu": pl.DataFrame(entries, schema=schema, orient="row")},
        rejects=pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"),
        skipped=skipped,
    )


def _header(line: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line.removeprefix("\ufeff")]), [])]


def _missing(names: Sequence[str]) -> list[str]:
    return [name for name in _REQUIRED if name not in names]


def _entry(text: str, header: Sequence[str] | None, cluster: str) -> list[object]:
    """The values of one line, in the order of the table's columns."""
    fields = _json_fields(text) if header is None else _csv_fields(text, header)
    values = {"cluster": cluster} | {k: v.strip() for k, v in fields.items() if v.strip()}
    if missing := _missing(list(values)):
        raise _EntryError(f"{' and '.join(missing)} is empty: an entry names a node and a GPU")
    values["gpu_uuid"] = canonical_uuid(values["gpu_uuid"])
    row = {name: _typed(name, kind, values.get(name)) for name, kind in _KINDS.items()}
    start, end = row["start_ts"] or _ALWAYS, row["end_ts"]
    if isinstance(start, datetime) and isinstance(end, datetime) and end <= start:
        raise _EntryError(f"end_ts {end} is not after start_ts {start}")
    return list((row | {"start_ts": start}).values())


def _typed(name: str, kind: str, text: str | None) -> object:
    if text is None:
        return None
    try:
        value = _READ[kind](text)
    except ValueError:
        raise _EntryError(f"{name} {text!r} is no {kind}") from None
    if isinstance(value, int) and not 0 <= value < 1 << 31:
        raise _EntryError(f"{name} {text!r} is out of range")
    return value


def _csv_fields(text: str, header: Sequence[str]) -> dict[str, str]:
    if missing := _missing(header):
        raise _EntryError(
            f"line 1 names no column {' and '.join(missing)}: write {','.join(_KINDS)}"
        )
    try:
        cells = next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise _EntryError(f"not a CSV line: {error}") from None
    if len(cells) != len(header):
        raise _EntryError(f"{len(cells)} cells, line 1 names {len(header)}")
    return dict(zip(header, cells, strict=True))


def _json_fields(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _EntryError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _EntryError("a JSON line is an object")
    wrong = [k for k, v in found.items() if k in _KINDS and isinstance(v, dict | list | bool)]
    if wrong:
        raise _EntryError(f"{wrong[0]} is neither text nor a number")
    return {k: str(v) for k, v in found.items() if k in _KINDS and v is not None}
