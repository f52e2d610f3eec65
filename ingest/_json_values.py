"""Values out of decoded JSON, whose types nobody promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def part(record: object, *path: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a path of keys; None where one is missing."""
    for key in path:
        if not isinstance(record, Mapping):
            return None
        record = record.get(key)
    return record


def text(value: object) -> str | None:
    """A string that says something."""
    return value if isinstance(value, str) and value else None


def finite(value: object) -> float | None:
    """A finite number, also one written as text; None for anything else, such as NaN, which json reads."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
