"""Prometheus pages of Kubernetes' API server, etcd and scheduler."""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from fleetmark.source import Context, Option, Parsed, source

from ..tables.control_plane_sample import CONTROL_PLANE_SAMPLE
from ..telemetry._scrape_pages import NAME_TIME
from ..telemetry._timed_samples import timed_samples


class Signal(NamedTuple):
    """Canonical name, how it counts, and the label that tells its parts."""

    name: str
    kind: str
    part: str | None = None


# Names of Kubernetes 1.20 to 1.34 (staging/src/k8s.io/apiserver metrics, pkg/scheduler/metrics) and etcd 3.3 to 3.6.
METRICS = {
    "apiserver_current_inflight_requests": Signal(
        "inflight_request_count", "gauge", "request_kind"
    ),
    "apiserver_request_duration_seconds_bucket": Signal("request_s", "histogram", "verb"),
    "apiserver_request_total": Signal("request_count", "counter", "code"),
    "apiserver_storage_size_bytes": Signal("etcd_db_bytes", "gauge"),
    "etcd_mvcc_db_total_size_in_bytes": Signal("etcd_db_bytes", "gauge"),
    "etcd_server_quota_backend_bytes": Signal("etcd_quota_bytes", "gauge"),
    "etcd_disk_wal_fsync_duration_seconds_bucket": Signal("etcd_wal_fsync_s", "histogram"),
    "etcd_disk_backend_commit_duration_seconds_bucket": Signal("etcd_commit_s", "histogram"),
    "etcd_server_leader_changes_seen_total": Signal("etcd_leader_change_count", "counter"),
    "scheduler_pending_pods": Signal("pending_pod_count", "gauge", "queue"),
    "scheduler_schedule_attempts_total": Signal("schedule_attempt_count", "counter", "result"),
    "scheduler_scheduling_attempt_duration_seconds_bucket": Signal(
        "scheduling_attempt_s", "histogram", "result"
    ),
    "scheduler_pod_scheduling_duration_seconds_bucket": Signal("pod_scheduling_s", "histogram"),
    "scheduler_pod_scheduling_sli_duration_seconds_bucket": Signal("pod_scheduling_s", "histogram"),
}
_HEAD = "|".join(METRICS)


@source(
    outputs=(CONTROL_PLANE_SAMPLE,),
    options=(
        Option("ts", "time of the scrape, of pages without marker: RFC 3339 or epoch s"),
        Option("node", "host of pages that name none"),
    ),
    name_facts=rf"{NAME_TIME}",
    sniff=lambda head, file_name: (
        re.search(rf"^(?:# \w+ )?(?:{_HEAD})[{{ ]".encode(), head, re.MULTILINE) is not None
    ),
)
def control_plane(lines: pl.DataFrame, context: Context) -> Parsed:
    """Pages of kube-apiserver, etcd and kube-scheduler in the exposition format, several in a file.

    Kept are the signals of METRICS: requests in flight, their times and codes, size and disk times of etcd,
    leader changes, pending pods, scheduling times. A page says no time: see the page markers of
    `dcgm_exporter`. Long-running requests (WATCH, CONNECT) are no latency and are left out of request_s.
    Codes stand as 429, 5xx and other. Other metrics on the page are counted as skipped.
    """
    timed = timed_samples(lines, context, pl.col("name").is_in(list(METRICS)))
    return Parsed(
        {CONTROL_PLANE_SAMPLE.name: _rows(timed.samples, context)},
        timed.rejects, timed.skipped, timed.held_from,
    )  # fmt: skip


def _rows(samples: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Series by signal and part, those that differ in other labels added up."""

    def of(field: str) -> pl.Expr:
        told = {name: getattr(signal, field) for name, signal in METRICS.items()}
        return pl.col("name").replace_strict(told, return_dtype=pl.String)

    labels = sorted({signal.part for signal in METRICS.values() if signal.part})
    label = pl.coalesce(
        pl.when(of("part") == name).then(_label(name)) for name in labels
    ).fill_null("")  # fmt: skip
    by_code = (
        pl.when(label == "429")
        .then(pl.lit("429"))
        .when(label.str.starts_with("5"))
        .then(pl.lit("5xx"))
        .otherwise(pl.lit("other"))
    )
    # 1 and 1.0 are one bucket; +Inf reads as inf.
    bound = _label("le").cast(pl.Float64, strict=False).cast(pl.String)
    told = samples.select(
        "line_no",
        "ts",
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.coalesce("page_node", pl.lit(context.options.get("node", ""))).alias("instance"),
        of("name").alias("signal"),
        of("kind").alias("kind"),
        pl.when(of("part") == "code").then(by_code).otherwise(label).alias("part"),
        pl.when(of("kind") == "histogram").then(bound).otherwise(pl.lit("")).alias("bucket"),
        pl.when(pl.col("value").is_finite()).then("value").alias("value"),
    ).filter(
        ~((pl.col("signal") == "request_s") & pl.col("part").is_in(["WATCH", "CONNECT", "WATCHLIST"])),
        pl.col("bucket").is_not_null(),
    )  # fmt: skip
    keys = ("cluster", "instance", "signal", "part", "bucket", "ts", "kind")
    return told.group_by(keys, maintain_order=True).agg(
        pl.col("line_no").min(), pl.col("value").sum().alias("value")
    )


def _label(name: str) -> pl.Expr:
    return pl.col("labels").str.extract(rf'(?:^|,)\s*"?{name}"?="([^"]*)"')
