"""Entries of `journalctl -o json` as the lines of `journalctl -o short-iso-precise`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

# Names of journal fields are upper case. json-sse begins its lines with `data: `, json-seq with a record separator.
ENTRY = r'^(?:data: |\x1e)?\{ ?"_{0,2}[A-Z][A-Z0-9_]*" ?:'
# A message that is no plain text is written as its bytes; no marker is seen in it.
BYTES = ('"MESSAGE":[', '"MESSAGE" : [')
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = re.compile(r"\d{1,16}")
_NO_TAG = re.compile(r"[\s\[\]:]+")


def may_be_event(text: pl.Expr) -> pl.Expr:
    """Entries to be looked at though no marker is in sight: bytes, and those that end too early."""
    is_cut = text.str.contains(ENTRY) & ~text.str.ends_with("}")
    return text.str.contains_any(list(BYTES)) | is_cut


def as_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """`lines` with `line`: `text`, or what the entry in it says; `is_broken`: no whole entry."""
    is_entry = pl.col("text").str.contains(ENTRY).fill_null(value=False)
    if not lines.select(is_entry.any()).item():
        return lines.with_columns(
            pl.col("text").alias("line"), pl.lit(value=False).alias("is_broken")
        )
    line = pl.col("text").map_elements(_line, return_dtype=pl.String, skip_nulls=True)
    entries = lines.filter(is_entry).with_columns(line.alias("line"))
    entries = entries.with_columns(pl.col("line").is_null().alias("is_broken"))
    others = lines.filter(~is_entry).with_columns(
        pl.col("text").alias("line"), pl.lit(value=False).alias("is_broken")
    )
    return pl.concat([entries, others]).sort("line_no", maintain_order=True)


def _line(text: str) -> str | None:
    try:
        entry = json.loads(text.removeprefix("data: ").removeprefix("\x1e"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    message = " ".join(_text(entry.get("MESSAGE")).split("\n"))
    host = _NO_TAG.sub("_", _text(entry.get("_HOSTNAME"))) or "-"
    stamp = _stamp(entry)
    return f"{stamp} {host} {_tag(entry)}: {message}" if stamp else message


def _text(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """A field's text: a string, its bytes, or the first of several."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return ""
    if all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value).decode("utf-8", "replace")
    return _text(value[0]) if isinstance(value[0], str) else ""


def _stamp(entry: dict[str, Any]) -> str:
    """The sender's time where it gave one, as journalctl's own short forms print it."""
    for name in ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP"):
        value = _text(entry.get(name))
        if _MICROSECONDS.fullmatch(value):
            ts = _EPOCH + timedelta(microseconds=int(value))
            return ts.isoformat(timespec="microseconds")
    return ""


def _tag(entry: dict[str, Any]) -> str:
    """The writer; `kernel` only where the journal says that it was: any program can claim the name."""
    transport = _text(entry.get("_TRANSPORT"))
    name = _NO_TAG.sub("_", _text(entry.get("SYSLOG_IDENTIFIER")) or _text(entry.get("_COMM")))
    if transport == "kernel" and name in ("", "kernel"):
        return "kernel"
    if name == "kernel":
        name = "claims-kernel" if transport else name
    pid = _NO_TAG.sub("_", _text(entry.get("_PID"))) or "0"
    return name if name == "kernel" else f"{name or 'unknown'}[{pid}]"
