"""What the receiver's /metrics shows: every input and the part `compute`, as Prometheus reads it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleetmark.live.status import Status, load_all

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS = {
    "rows": ("row_count", "Rows added to the store."),
    "rejects": ("reject_count", "Lines and messages refused; the table `reject` says why."),
    "looks": ("look_count", "Looks at the input that ended without an error."),
    "failures": ("failure_count", "Looks at the input that failed."),
}


class _Standing(Collector):
    def __init__(self, root: Path) -> None:
        self._root = root

    def collect(self) -> Iterator[Metric]:
        found = load_all(self._root)
        for name, (attribute, doc) in _COUNTERS.items():
            counter = CounterMetricFamily(f"fleetmark_input_{name}", doc, labels=["input", "kind"])
            for one in found:
                counter.add_metric([one.name, one.kind], getattr(one, attribute))
            yield counter
        yield from _gauges(found)
        disk = shutil.disk_usage(self._root)
        free = GaugeMetricFamily("fleetmark_store_free_bytes", "Free space where the store lies.")
        free.add_metric([], disk.free)
        yield free


def _gauges(found: list[Status]) -> Iterator[Metric]:
    labels = ["input", "kind"]
    up = GaugeMetricFamily("fleetmark_input_up", "0 while the last look failed.", labels=labels)
    last = GaugeMetricFamily(
        "fleetmark_input_last_success_timestamp_seconds",
        "When a look last ended well.",
        labels=labels,
    )
    lag = GaugeMetricFamily("fleetmark_input_lag", "Messages known to wait.", labels=labels)
    busy = GaugeMetricFamily(
        "fleetmark_input_busy_seconds", "How long the last look took.", labels=labels
    )
    step = GaugeMetricFamily(
        "fleetmark_compute_seconds",
        "How long each step of the last computation took.",
        labels=["step"],
    )
    unmet = GaugeMetricFamily(
        "fleetmark_contract_unmet_expectations",
        "Expectations of the data contracts not met at the last judgement; `contract_result` says which.",
        labels=["severity"],
    )
    for one in found:
        key = [one.name, one.kind]
        up.add_metric(key, float(one.state != "degraded"))
        busy.add_metric(key, one.busy_s)
        if one.last_success:
            at = datetime.fromisoformat(one.last_success).replace(tzinfo=UTC)
            last.add_metric(key, at.timestamp())
        if one.lag_count is not None:
            lag.add_metric(key, one.lag_count)
        for name, seconds in one.timings_s.items():
            step.add_metric([name], seconds)
        for severity, count in one.unmet_counts.items():
            unmet.add_metric([severity], count)
    yield from (up, last, lag, busy, step, unmet)


def page(root: Path) -> bytes:
    """The page, in the text format."""
    registry = CollectorRegistry()
    registry.register(_Standing(root))
    return generate_latest(registry)
