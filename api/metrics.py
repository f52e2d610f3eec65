"""`/metrics`: the main signals as gauges, for Prometheus and its alert rules.

Each gauge shows the newest day (or level) that the store holds for each cluster, not a time series: history
and joins are what SQL and dashboards are for. `fleetmark_signal_timestamp_seconds` says how old it is, and the
coverage gauges how much of that day was seen. No label is a job, node, GPU or person, and no gauge has more
than 500 series; what is left out is counted in `fleetmark_series_left_out`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleetmark.query.snapshot import Snapshot

from .admission import principal_of
from .lake import Lake

router = APIRouter(tags=["metrics"])

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES = 500


@dataclass(frozen=True, slots=True)
class Signal:
    """Gauges that one SELECT over one table fills.

    `rows` gives the labels, then `at` (the time the values are of, or NULL), then a column per gauge, named
    as in `gauges`; NULL is no series.
    """

    table: str
    labels: tuple[str, ...]
    gauges: dict[str, str]
    rows: str


SIGNALS = (
    Signal(
        "goodput_day",
        ("cluster",),
        {
            "goodput_lower_ratio": "Share of allocated GPU time that ended in completed work, lower bound.",
            "goodput_upper_ratio": "The same, upper bound: work still running counts as completed.",
            "goodput_coverage_ratio": "Share of the attempts' seconds for which the GPUs held are known.",
        },
        "SELECT cluster, day_ts AS at, goodput_lower_ratio, goodput_upper_ratio, coverage_ratio AS "
        "goodput_coverage_ratio FROM goodput_day QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)",
    ),
    Signal(
        "mfu_day",
        ("cluster", "gpu_model", "convention"),
        {
            "mfu_ratio": "Model FLOPs utilisation of all jobs, weighted by GPU time.",
            "mfu_coverage_ratio": "Share of the attempts with logged steps that have a figure.",
        },
        "SELECT cluster, gpu_model, convention, day_ts AS at, mfu_ratio, coverage_ratio AS "
        "mfu_coverage_ratio FROM mfu_day QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)",
    ),
    Signal(
        "step_straggler",
        ("cluster",),
        {
            "slow_ranks": "Ranks judged slow.",
            "unjudged_ranks": "Ranks that could not be judged.",
            "slow_ranks_lost_gpu_seconds": "GPU time that jobs waited for slow ranks.",
        },
        "SELECT cluster, day_ts AS at, count(*) FILTER (verdict = 'slow') AS slow_ranks, "
        "count(*) FILTER (verdict = 'not_evaluable') AS unjudged_ranks, "
        "sum(lost_gpu_s) FILTER (verdict = 'slow') AS slow_ranks_lost_gpu_seconds FROM "
        "(FROM step_straggler QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)) GROUP BY ALL",
    ),
    Signal(
        "node_health",
        ("cluster", "state"),
        {"nodes": "Nodes by what is to be done: act, watch, clear, unknown."},
        "SELECT cluster, state, day_ts AS at, count(*) AS nodes FROM "
        "(FROM node_health QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)) GROUP BY ALL",
    ),
    Signal(
        "coverage_gpu_day",
        ("cluster",),
        {
            "gpus_reporting": "GPUs with telemetry on that day.",
            "telemetry_coverage_ratio": "Mean share of the day's minutes with telemetry, over GPUs.",
        },
        "SELECT cluster, day_ts AS at, count(DISTINCT gpu_uuid) AS gpus_reporting, avg(coverage_ratio) AS "
        "telemetry_coverage_ratio FROM (FROM coverage_gpu_day QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)) GROUP BY ALL",
    ),
    Signal(
        "pool_level",
        ("cluster", "pool"),
        {
            "pool_installed_gpus": "GPUs installed.",
            "pool_in_service_gpus": "GPUs in service.",
            "pool_allocated_gpus": "GPUs allocated.",
            "pool_pending_gpus": "GPUs that waiting jobs ask for.",
            "pool_pending_attempts": "Waiting jobs.",
        },
        "SELECT cluster, pool, start_ts AS at, installed_gpu_count AS pool_installed_gpus, "
        "in_service_gpu_count AS pool_in_service_gpus, allocated_gpu_count AS pool_allocated_gpus, "
        "pending_gpu_count AS pool_pending_gpus, pending_attempt_count AS pool_pending_attempts "
        "FROM pool_level QUALIFY start_ts = max(start_ts) OVER (PARTITION BY cluster, pool)",
    ),
    Signal(
        "idle_while_pending",
        ("cluster", "pool"),
        {"idle_while_pending_ratio": "GPU time that was free while jobs waited, by GPU time in service."},
        "SELECT cluster, pool, day_ts AS at, idle_ratio AS idle_while_pending_ratio "
        "FROM idle_while_pending QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster)",
    ),
    Signal(
        "finding",
        ("domain", "severity", "detector"),
        {"findings": "Findings detected in the last 24 hours."},
        "SELECT domain, severity, detector, NULL::TIMESTAMP AS at, count(*) AS findings FROM finding "
        "WHERE detected_at > $now::TIMESTAMP - INTERVAL 1 DAY GROUP BY ALL",
    ),
    Signal(
        "detector_status",
        ("status",),
        {"detectors": "Detectors by whether they could judge at their last run."},
        "SELECT status, NULL::TIMESTAMP AS at, count(*) AS detectors FROM detector_status GROUP BY ALL",
    ),
)  # fmt: skip


class Page:
    """The page of each caller's part of the store, made once per snapshot and minute."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self._made: dict[str, tuple[tuple[int, datetime], bytes]] = {}

    def text(self, snapshot: Snapshot, now: datetime) -> bytes:
        state = (snapshot.id, now.replace(second=0, microsecond=0))
        with self._lock:
            made = self._made.get(snapshot.scope)
            if made is None or made[0] != state:
                registry = CollectorRegistry()
                registry.register(_Standing(self._lake, snapshot, now))
                made = self._made[snapshot.scope] = (state, generate_latest(registry))
            return made[1]


class _Standing(Collector):
    def __init__(self, lake: Lake, snapshot: Snapshot, now: datetime) -> None:
        self._lake = lake
        self._snapshot = snapshot
        self._now = now

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        made = GaugeMetricFamily(
            "fleetmark_snapshot_timestamp_seconds", "When the newest snapshot was committed."
        )
        made.add_metric([], _epoch_s(self._snapshot.created_at))
        yield made
        left_out = GaugeMetricFamily(
            "fleetmark_series_left_out", "Series beyond the bound.", labels=["signal"]
        )
        stamps = GaugeMetricFamily(
            "fleetmark_signal_timestamp_seconds",
            "The newest time that a signal's figures are of.",
            labels=["signal"],
        )
        for signal in SIGNALS:
            if signal.table in self._snapshot.tables:
                yield from self._families(signal, left_out, stamps)
        yield from (left_out, stamps)

    def _families(
        self, signal: Signal, left_out: GaugeMetricFamily, stamps: GaugeMetricFamily
    ) -> Iterator[Metric]:
        found = self._lake.rows(
            signal.rows, [signal.table], {"now": self._now} if "$now" in signal.rows else {},
            snapshot=self._snapshot,
        )  # fmt: skip
        found.sort(key=lambda row: [str(row[name]) for name in signal.labels])
        left_out.add_metric([signal.table], max(0, len(found) - MAX_SERIES))
        times = [row["at"] for row in found if row["at"] is not None]
        if times:
            newest = datetime.fromisoformat(max(times)).replace(tzinfo=None)
            stamps.add_metric([signal.table], _epoch_s(newest))
        for name, doc in signal.gauges.items():
            family = GaugeMetricFamily(f"fleetmark_{name}", doc, labels=list(signal.labels))
            for row in found[:MAX_SERIES]:
                if row[name] is not None:
                    labels = [str(row[label] or "") for label in signal.labels]
                    family.add_metric(labels, float(row[name]))
            yield family


def _epoch_s(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request) -> Response:
    """The main signals in Prometheus' text format."""
    lake: Lake = request.app.state.lake
    page: Page = request.app.state.metrics
    snapshot = lake.seen_by(principal_of(request))
    now = datetime.now(UTC).replace(tzinfo=None)
    return Response(page.text(snapshot, now), media_type=MEDIA_TYPE)
