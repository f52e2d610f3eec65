r"""The Prometheus exposition format: text format 0.0.4 and OpenMetrics 1.0.

A sample is `name{label="value",...} value [timestamp]`, in OpenMetrics with an exemplar behind it.
Quoted names (`{"a name",label="x"} 1`, Prometheus 3) are read too. In label values `\\`, `\"` and
`\n` are escapes; a backslash before anything else stands for itself.

Here one line is read, exactly; `_exposition_lines` reads many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_QUOTED = r'"(?:[^"\\]|\\.)*"'
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(
    rf"[ \t]*([a-zA-Z_:.][a-zA-Z0-9_:.]*|{_QUOTED})(?:[ \t]*=[ \t]*({_QUOTED}))?[ \t]*"
)
_ESCAPE = re.compile(r'\\([\\"n])')
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_VALUE = re.compile(rf"{_NUMBER}|[+-]?(?i:inf(?:inity)?|nan)|<<<[A-Z_]+>>>")
_TIME = re.compile(_NUMBER)
_EXEMPLAR = re.compile(rf"#[ \t]*\{{(?:[^\"}}]|{_QUOTED})*\}}[ \t]+\S+(?:[ \t]+{_NUMBER})?[ \t]*")
_REJECT_VALUE_CHARS = 80

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample as written: labels unescaped in the order of the line, numbers still text."""

    name: str
    labels: Labels
    value: str
    time: str | None = None


class NotASampleError(ValueError):
    """The line is no sample; the message says what was found and at which character (from 1)."""


def _unquote(text: str) -> str:
    if "\\" not in text:
        return text[1:-1]
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text[1:-1])


def read_labels(
    text: str, start: int = 0, *, closed: bool = True
) -> tuple[str | None, Labels, int]:
    """Read labels from behind `{`: (a quoted metric name, labels, where they end).

    They end behind `}`; with `closed=False` the text is what stands between the braces.
    """
    name: str | None = None
    labels: list[tuple[str, str]] = []
    at = start
    while True:
        rest = text[at:].lstrip(" \t")
        if (closed and rest.startswith("}")) or (not closed and not rest):
            break
        found = _LABEL.match(text, at)
        if not found:
            raise NotASampleError(f"labels are malformed at character {at + 1}")
        key, value = found[1], found[2]
        at = found.end()
        if value is None:
            if not key.startswith('"') or name is not None:
                raise NotASampleError(f"label {key} has no quoted value at character {at + 1}")
            name = _unquote(key)
        else:
            labels.append((_unquote(key) if key.startswith('"') else key, _unquote(value)))
        if at < len(text) and text[at] == ",":
            at += 1
        elif closed and text[at : at + 1] != "}":
            raise NotASampleError(f"labels are not closed by }} at character {at + 1}")
        elif not closed and at < len(text):
            raise NotASampleError(f"labels are malformed at character {at + 1}")
    if len({key for key, _ in labels}) < len(labels):
        raise NotASampleError("a label is given twice")
    end = len(text) if not closed else text.index("}", at) + 1
    return name, tuple(labels), end


def read_sample(line: str) -> Sample:
    """Read one line that is neither blank nor a comment."""
    text = line.strip(" \t")
    found = NAME.match(text)
    name = found[0] if found else None
    at = found.end() if found else 0
    labels: Labels = ()
    behind = text[at:].lstrip(" \t")
    if behind.startswith("{"):
        quoted, labels, at = read_labels(text, text.index("{", at) + 1)
        if name is not None and quoted is not None:
            raise NotASampleError("the metric has two names")
        name = name or quoted
    elif name is not None and behind == text[at:]:
        raise NotASampleError("no value behind the name")
    if name is None:
        raise NotASampleError("does not begin with a metric name")
    return _with_numbers(name, labels, text[at:].strip(" \t"))


def _with_numbers(name: str, labels: Labels, text: str) -> Sample:
    """Value, timestamp and exemplar behind name and labels."""
    if not text:
        raise NotASampleError("no value behind the labels")
    value = _VALUE.match(text)
    if not value or text[value.end() : value.end() + 1] not in ("", " ", "\t"):
        raise NotASampleError(f"value {text[:_REJECT_VALUE_CHARS]!r} is not a number")
    rest = text[value.end() :].lstrip(" \t")
    time = _TIME.match(rest)
    if time:
        if rest[time.end() : time.end() + 1] not in ("", " ", "\t"):
            raise NotASampleError(f"timestamp {rest[:_REJECT_VALUE_CHARS]!r} is not a number")
        rest = rest[time.end() :].lstrip(" \t")
    if rest and not _EXEMPLAR.fullmatch(rest):
        raise NotASampleError(
            f"{rest[:_REJECT_VALUE_CHARS]!r} behind the value is no timestamp or exemplar"
        )
    return Sample(name, labels, value[0], time[0] if time else None)


@lru_cache(maxsize=1 << 14)
def labels_of(text: str) -> Labels | None:
    """Labels written between braces, or None where the text is not exactly that."""
    try:
        name, labels, _ = read_labels(text, closed=False)
    except NotASampleError:
        return None
    return labels if name is None else None


def labels_text(labels: Labels) -> str:
    """Labels as `labels_of` reads them."""
    escaped = (
        (k, v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for k, v in labels
    )
    return ",".join(f'"{key}"="{value}"' for key, value in escaped)
