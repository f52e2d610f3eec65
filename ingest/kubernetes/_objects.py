"""Kubernetes objects of a file: lists, single objects, watch output; JSON after JSON, YAML documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from .._json_values import part, text
from ._values import time

NO_JSON = (
    "no JSON or YAML: collect with `kubectl get … -o json` (or `-o yaml`), "
    "or `--watch --output-watch-events -o json`"
)
PRINTED = "kubectl's table, which lacks times and requests: collect with `kubectl get … -o json`"
TABLE_HEAD = re.compile(r"(?:NAMESPACE +)?(?:NAME +[A-Z].* AGE\b|LAST SEEN +TYPE )")
YAML_KEYS = re.compile(
    rb"^(?:- )?(?:apiVersion|items|kind|metadata|object|type):(?: |\r?$)", re.MULTILINE
)
HEAD_BYTES = 64 << 10
CUT = "the file does not end with a line's end: cut there?"
SHOWN = 200
TIME_KEYS = frozenset({
    "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastHeartbeatTime",
    "lastProbeTime", "lastUpdateTime", "startTime", "completionTime", "startedAt", "finishedAt",
    "firstTimestamp", "lastTimestamp", "eventTime", "lastObservedTime", "time",
})  # fmt: skip


@dataclass(slots=True)
class Entry:
    """One object: its number in the file, what a watch said of it, and itself."""

    line_no: int
    kind: str
    group: str
    change: str | None
    body: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        return mapping(self.body.get("metadata"))

    @property
    def name(self) -> str | None:
        return text(self.meta.get("name"))

    @property
    def namespace(self) -> str:
        return text(self.meta.get("namespace")) or ""

    @property
    def uid(self) -> str | None:
        return text(self.meta.get("uid"))

    @property
    def created(self) -> datetime | None:
        return time(self.meta.get("creationTimestamp"))


@dataclass(slots=True)
class Objects:
    """What a file holds: objects by kind, in order; rejects; skipped bookmarks."""

    entries: list[Entry] = field(default_factory=list)
    rejected: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0
    count: int = 0

    def rejects(self) -> pl.DataFrame:
        return pl.DataFrame(self.rejected, schema=REJECTS_SCHEMA, orient="row")

    def latest_time(self) -> datetime | None:
        """The latest time that any object proves: what it says was read then or later."""
        found = [moment for entry in self.entries for moment in _times(entry.body)]
        return max(found, default=None)


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects_of(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return (
        [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    )


def is_yaml(content: bytes) -> bool:
    """Block YAML with a key of a Kubernetes object at its left edge."""
    head = content[:HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    return head[:1] not in {b"{", b"["} and YAML_KEYS.search(head) is not None


def read_objects(content: bytes) -> Objects:
    """Every object of the file; a cut end leaves those before it and a reject."""
    found = Objects()
    for document in read_documents(content, found):
        _take(document, found)
    return found


def read_documents(content: bytes, found: Objects) -> Iterator[object]:
    """The values of a file: JSON, one or one after the other, or YAML; rejects go to `found`."""
    if is_yaml(content):
        yield from _yaml_documents(content.decode("utf-8-sig", "replace"), found)
        return
    try:
        yield msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        yield from _one_after_the_other(content.decode("utf-8", "replace"), found)


def _yaml_documents(content: str, found: Objects) -> Iterator[object]:
    """The values of YAML documents; one that is damaged does not keep others from being read."""
    from ._yaml import DamagedYamlError, documents, value_of  # noqa: PLC0415 - 30 ms, and seldom

    for line_no, document in documents(content):
        try:
            value = value_of(document)
        except DamagedYamlError as error:
            reason = f"YAML, line {line_no + error.line}: {error}"
        else:
            # Indented text stays valid where it is cut, but a list has its kind at its end.
            is_last = content.endswith(document) and not document.endswith("\n")
            if not is_last or "items" in mapping(value):
                yield value
                continue
            reason = CUT
        found.count += 1
        found.rejected.append((found.count, reason, document[:SHOWN]))


def _one_after_the_other(content: str, found: Objects) -> Iterator[object]:
    """JSON values that follow each other, as `kubectl get -w -o json` prints them."""
    decoder = json.JSONDecoder()
    at = 0
    while at < len(content):
        if content[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(content, at)
        except (ValueError, RecursionError):
            end = content.find("\n", at)
            end = len(content) if end < 0 else end
            found.count += 1
            reason = _why_none(content, at)
            found.rejected.append((found.count, reason, content[at : at + SHOWN]))
            at = end
            if content[end:].lstrip()[:1] not in {"{", "["}:
                return
            continue
        yield value


def _why_none(content: str, at: int) -> str:
    """Why what stands there is no JSON."""
    if content[at] in "{[":
        return "JSON that is cut or damaged"
    return PRINTED if TABLE_HEAD.match(content, at) else NO_JSON


def _take(document: object, found: Objects) -> None:
    """A list's items, a watch event's object, or the object itself."""
    if isinstance(document, list):
        for item in document:
            _take(item, found)
        return
    body = mapping(document)
    change = text(body.get("type")) if "object" in body else None
    body = mapping(body.get("object")) if "object" in body else body
    kind = text(body.get("kind")) or ""
    if kind.endswith("List") and isinstance(body.get("items"), list):
        for item in body["items"]:
            of_list = mapping(item)
            _add(of_list, text(of_list.get("kind")) or kind.removesuffix("List"),
                 text(of_list.get("apiVersion")) or text(body.get("apiVersion")), change, found)  # fmt: skip
        return
    _add(body, kind, text(body.get("apiVersion")), change, found)


def _add(
    body: Mapping[str, Any], kind: str, version: str | None, change: str | None, found: Objects
) -> None:
    found.count += 1
    if change == "BOOKMARK":
        found.skipped += 1
    elif kind == "Status":
        code, message = body.get("code"), text(body.get("message"))
        reason = f"the server ended the watch with {code}: changes after it are not in this file"
        found.rejected.append((found.count, reason, message or ""))
    elif not kind or not part(body, "metadata", "name"):
        shown = json.dumps(body, default=str)[:SHOWN]
        found.rejected.append(
            (found.count, "no Kubernetes object: kind or metadata.name lacks", shown)
        )
    else:
        group = (version or "").rpartition("/")[0]
        found.entries.append(Entry(found.count, kind, group, change, body))


def _times(value: object) -> Iterator[datetime]:
    if isinstance(value, list):
        for entry in value:
            yield from _times(entry)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if isinstance(entry, str):
                if key in TIME_KEYS and (moment := time(entry)):
                    yield moment
            elif key != "fieldsV1":
                yield from _times(entry)
