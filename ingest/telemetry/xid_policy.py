"""Policies about GPU error codes, as rows: Fleetmark's collection, and your own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl

from fleetmark.source import Context, Parsed, source
from fleetmark.table import Column

from .._entries import Entries, EntryError
from ..tables.xid_policy import ACTIONS, SCOPES, XID_POLICY

MAX_CODE = 100_000
MAX_REPEAT_WINDOW_H = 720
_ENTRY = replace(
    XID_POLICY,
    grain=("policy",),
    sort=(),
    columns=(
        Column("codes", "VARCHAR", "codes and ranges, or any"),
        *(column for column in XID_POLICY.columns if column.name != "code"),
    ),
)
_ENTRIES = Entries(_ENTRY, ("policy", "codes", "action"), "a policy, codes and an action")
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


def _looks_like_policy(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return all(name in first for name in (b"policy", b"codes", b"action")) and first[:1] != b"#"


@source(
    outputs=(XID_POLICY,),
    sniff=_looks_like_policy,
    packaged=(Path(__file__).with_suffix(".json"),),
)
def xid_policy(lines: pl.DataFrame, context: Context) -> Parsed:
    """Policies about XIDs and SXids: CSV with a header line (RFC 4180), or JSON lines; a rule a line.

    Fields are the columns of xid_policy under their names, in any order, but for `codes` in place of
    `code`: codes and ranges with blanks between them (`13 31 144-150`), or `any` for every code that
    the policy has no rule for. `policy`, `codes` and `action` must be there; `event` is xid where
    empty. A rule with a repeat names scope, count, window and action. `recorded_ts` is ISO 8601.

        policy,codes,action,severity,source
        ours,63 94,reset_when_idle,1,fleet team 2026-11-02
        ours,any,investigate,,fleet team 2026-11-02

    Fleetmark's own collection is read with the first ingest into a store, and again when it changes.
    """
    rows, bad, skipped = _ENTRIES.read(lines, context.first_line, "", _finish)
    codes = rows["codes"].map_elements(_expand, return_dtype=pl.List(pl.Int32))
    rows = rows.with_columns(codes.alias("code")).explode("code").drop("codes")
    return Parsed({"xid_policy": rows}, bad, skipped)


def _finish(rule: dict[str, object]) -> dict[str, object]:
    _expand(str(rule["codes"]))
    for name in ("action", "repeat_action"):
        if rule[name] is not None and rule[name] not in ACTIONS:
            raise EntryError(f"{name} {rule[name]!r} is none of {', '.join(ACTIONS)}")
    if rule["repeat_scope"] is not None and rule["repeat_scope"] not in SCOPES:
        raise EntryError(f"repeat_scope {rule['repeat_scope']!r} is none of {', '.join(SCOPES)}")
    repeat = [rule[f"repeat_{part}"] for part in ("scope", "count", "window_h", "action")]
    if any(part is None for part in repeat) and any(part is not None for part in repeat):
        raise EntryError("a repeat needs repeat_scope, _count, _window_h and _action")
    if isinstance(repeat[2], int) and repeat[2] > MAX_REPEAT_WINDOW_H:
        raise EntryError(f"repeat_window_h {repeat[2]} is over {MAX_REPEAT_WINDOW_H}")
    pattern = str(rule["pattern"] or "")
    if pattern:
        _check_pattern(pattern)
    return rule | {"event": rule["event"] or "xid", "pattern": pattern}


def _check_pattern(pattern: str) -> None:
    """Models match it with DuckDB, whose expressions (RE2) differ from others in places."""
    with duckdb.connect() as connection:
        try:
            connection.execute("SELECT regexp_matches('', $1)", [pattern])
        except duckdb.Error as error:
            problem = str(error).splitlines()[0]
            raise EntryError(f"pattern {pattern!r} is no regular expression: {problem}") from None


def _expand(codes: str) -> list[int]:
    """`13 31 144-150` as numbers; `any` as 0. Raises EntryError."""
    if codes == "any":
        return [0]
    found: list[int] = []
    for part in codes.split():
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else 0
        if not 0 < first <= last < MAX_CODE:
            raise EntryError(
                f"codes {codes!r}: write numbers and ranges, such as 13 31 144-150, or any"
            )
        found += range(first, last + 1)
    return found
