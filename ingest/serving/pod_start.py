"""How pods of inference servers got from created to ready."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source

from .._entries import is_utf8
from ..kubernetes._objects import Objects, mapping, read_documents
from ..tables.replica_phase import REPLICA_PHASE

# kubelet's event when an image has been pulled (pkg/kubelet/images/image_manager.go), Go's duration.
PULLED = re.compile(r'Successfully pulled image "([^"]+)" in ((?:[\d.]+(?:h|ms|m|us|µs|s))+)')
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
MAX_S = 7 * 86_400.0
Entry = Mapping[str, Any]


@source(outputs=(REPLICA_PHASE,), reads="document")
def pod_start(content: bytes, context: Context) -> Parsed:
    """Pods and events as `kubectl get pods,events -o json` (or yaml) writes them, v1 and events.k8s.io.

    Of a pod that was ready: pod (created to ready), schedule (to PodScheduled), start (to its first
    container running), serve (to ready); of events `Pulled` the images. Times are Kubernetes', whole
    seconds. A pod that restarted is left out beyond schedule: its conditions tell of the last start
    only. Pods that are not ready yet and other objects are skipped; events last an hour. Not told
    apart from `kubernetes` by `ingest auto`: name the source. `line_no` is the object's place.
    """
    objects = Objects()
    rows: list[dict[str, object]] = []
    bad: list[tuple[int, str, str]] = []
    skipped = place = 0
    for document in read_documents(content, objects):
        for item in _items(document):
            place += 1
            try:
                found = list(_phases(item))
            except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
                shown = json.dumps(item, default=str)[:200]
                bad.append((place, f"a damaged object: {error}"[:200], shown))
                continue
            skipped += not found
            rows += [row | {"line_no": place, "origin": "kubernetes"} for row in found]
    bad += objects.rejected
    schema = {"line_no": pl.Int64(), **REPLICA_PHASE.polars_schema()}
    frame = pl.DataFrame([r | {"cluster": context.options["cluster"]} for r in rows], schema=schema,
                         orient="row")  # fmt: skip
    refused = pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row")
    return Parsed({REPLICA_PHASE.name: frame}, refused, skipped)


def _items(document: object) -> list[Any]:
    """A list's objects, or the one."""
    items = mapping(document).get("items")
    return items if isinstance(items, list) else [document]


def _phases(item: Entry) -> Iterator[dict[str, object]]:
    if not isinstance(item.get("kind"), str):
        raise TypeError("no Kubernetes object: is it an answer of kubectl -o json?")
    kind = item["kind"]
    if kind == "Pod":
        yield from _pod(item)
    elif kind == "Event" and item.get("reason") == "Pulled":
        pulled = PULLED.search(str(item.get("message") or item.get("note") or ""))
        who = item.get("involvedObject") or item.get("regarding") or {}
        at = item.get("firstTimestamp") or item.get("eventTime") or item.get("lastTimestamp")
        if pulled and who.get("kind") == "Pod" and at:
            host = (item.get("source") or {}).get("host")
            end = _time(at).timestamp()
            yield from _span(who["name"], "pull", end - _seconds(pulled[2]), end, host, pulled[1])


def _pod(pod: Entry) -> Iterator[dict[str, object]]:
    name, created = pod["metadata"]["name"], _time(pod["metadata"]["creationTimestamp"]).timestamp()
    status, node = pod.get("status") or {}, (pod.get("spec") or {}).get("nodeName")
    met = {
        c["type"]: _time(c["lastTransitionTime"]).timestamp()
        for c in status.get("conditions") or []
        if c.get("status") == "True" and c.get("lastTransitionTime")
    }
    containers = status.get("containerStatuses") or []
    placed, ready = met.get("PodScheduled"), met.get("Ready")
    if placed is not None:
        yield from _span(name, "schedule", created, placed, node)
    running = [(c.get("state") or {}).get("running") or {} for c in containers]
    starts = [_time(r["startedAt"]).timestamp() for r in running if r.get("startedAt")]
    if (
        placed is None
        or ready is None
        or not starts
        or any(c.get("restartCount") for c in containers)
    ):
        return
    yield from _span(name, "start", placed, min(starts), node)
    yield from _span(name, "serve", min(starts), ready, node)
    yield from _span(name, "pod", created, ready, node)


def _span(
    name: object, phase: str, start: float, end: float, node: object, part: str = ""
) -> Iterator[dict[str, object]]:
    """A phase; none where the clocks of two machines make it end before it begins."""
    if not is_utf8(f"{name}{node}{part}"):
        raise ValueError("a name is not valid text")
    if 0 <= end - start <= MAX_S:
        yield {
            "replica": str(name), "phase": phase, "part": part, "node": node and str(node),
            "start_ts": datetime.fromtimestamp(start, UTC).replace(tzinfo=None),
            "end_ts": datetime.fromtimestamp(end, UTC).replace(tzinfo=None),
            "duration_s": round(end - start, 6),
        }  # fmt: skip


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"time {text!r} has no zone")
    return time


def _seconds(text: str) -> float:
    parts = re.findall(r"([\d.]+)(h|ms|m|us|µs|s)", text)
    return sum(float(number) * UNITS[unit] for number, unit in parts)
