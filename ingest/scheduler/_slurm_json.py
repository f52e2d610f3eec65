"""Slurm's JSON of any release: read by what a value looks like, never by a version number.

Numbers are plain or `{set, infinite, number}` (from 23.02), states a string or a list (from 23.11),
resources a list of objects or a string. Releases and their parsers: 21.08 dbv0.0.37 to 26.05 v0.0.45.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from .._json_values import part, text

# NO_VAL and INFINITE of 32 and 64 bits (slurm: slurm/slurm.h), and -2, which is NO_VAL read as signed.
NO_VALUE = frozenset({-2, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE})
INFINITE = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})


def load(content: bytes) -> dict[str, Any] | str:
    """The document, or why there is none. A banner before the first brace is passed over."""
    at = content.find(b"{")
    if at < 0:
        return "no JSON: the file has no {"
    try:
        document = json.loads(content[at:])
    except (ValueError, RecursionError) as error:
        return f"no whole JSON document ({error}): is the file cut?"
    return document if isinstance(document, dict) else "no JSON object"


def number(value: object) -> int | float | None:
    """The number in `value`; None if it is unset, infinite or no number."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in NO_VALUE or value in INFINITE else value


def is_infinite(value: object) -> bool:
    """Does `value` say that there is no limit?"""
    if isinstance(value, Mapping):
        return bool(value.get("infinite"))
    return isinstance(value, int) and value in INFINITE


def words(value: object) -> list[str]:
    """Words of a list of strings, or of one string with `+` or commas."""
    if isinstance(value, str):
        value = value.replace("+", ",").split(",")
    if not isinstance(value, Sequence):
        return []
    return [word for word in value if isinstance(word, str) and word]


def tres_text(entries: object) -> str | None:
    """Resources as Slurm writes them in text, from `[{type, name, count}]` or from that text."""
    if isinstance(entries, str):
        return entries or None
    if not isinstance(entries, Sequence):
        return None
    found: list[str] = []
    for entry in entries:
        count = number(part(entry, "count"))
        kind, name = text(part(entry, "type")), text(part(entry, "name"))
        if count is None or kind is None:
            continue
        unit = "M" if kind == "mem" else ""
        found.append(f"{kind}/{name}={count}{unit}" if name else f"{kind}={count}{unit}")
    return ",".join(found) or None


def exit_text(code: object) -> str | None:
    """`code:signal` as sacct prints it, from any of its JSON forms; None if it is not known.

    Up to 23.02 a status string SUCCESS stands beside return code 0 even where the job failed with
    another one, so there it is taken for unknown; the caller knows better for completed jobs.
    """
    status = part(code, "status")
    if status == "SUCCESS":
        return None
    returned = number(part(code, "return_code"))
    signal = part(code, "signal", "id")
    signalled = number(part(code, "signal", "signal_id") if signal is None else signal)
    if returned is None and signalled is None:
        return None
    return f"{returned or 0}:{signalled or 0}"


def records(document: Mapping[str, Any], key: str) -> list[tuple[int, dict[str, Any]]]:
    """Numbered objects of a list; `not_objects` has the others."""
    entries = document.get(key)
    if not isinstance(entries, list):
        return []
    return [(at, entry) for at, entry in enumerate(entries, 1) if isinstance(entry, dict)]


def not_objects(document: Mapping[str, Any], key: str) -> pl.DataFrame:
    """Rejects for the entries of a list that are no objects."""
    entries = document.get(key)
    if not isinstance(entries, list):
        return reject([(1, f"{key} is no list", str(entries)[:200])])
    return reject(
        (at, f"entry of {key} is no object", json.dumps(entry)[:1000])
        for at, entry in enumerate(entries, 1)
        if not isinstance(entry, dict)
    )


def reject(rows: Iterable[tuple[int, str, str]]) -> pl.DataFrame:
    """Rejects from (record number, reason, text)."""
    return pl.DataFrame(list(rows), schema=REJECTS_SCHEMA, orient="row")
