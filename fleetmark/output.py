"""What commands print: rows as aligned text or as a JSON list of objects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of a result
    """A value as JSON can hold it: times in ISO 8601 UTC, NaN and infinity as null."""
    if isinstance(value, datetime):
        return value.isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def json_line(values: dict[str, Any]) -> str:
    """One object on one line, for logs."""
    return json.dumps(plain(values))


def as_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as a JSON list of objects, one object a line."""
    objects = (json.dumps(dict(zip(columns, map(plain, row), strict=True))) for row in rows)
    body = ",\n ".join(objects)
    return f"[{body}]"


def as_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows in aligned columns; NULL stays empty. Control characters of logs are made visible."""
    table = [
        [visible(name) for name in columns],
        *([_cell(value) for value in row] for row in rows),
    ]
    widths = [max(len(row[n]) for row in table) for n in range(len(columns))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )
    return "\n".join(lines)


def _decimal(value: float) -> str:
    """Six significant digits, and never fewer than the whole part: GPU-seconds are not rounded."""
    if not 1e5 <= abs(value) < 1e15:
        return f"{value:.6g}"
    return f"{value:.1f}".removesuffix(".0")


def _cell(value: Any) -> str:  # noqa: ANN401 - any value of a result
    shown = plain(value)
    if shown is None:
        return ""
    if isinstance(shown, float):
        return _decimal(shown)
    return visible(shown if isinstance(shown, str) else json.dumps(shown))


def visible(text: str) -> str:
    """One line of text with control characters spelt out: logs must not drive the terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
