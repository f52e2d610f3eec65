"""Prometheus exposition pages of GPU exporters."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..tables.gpu_identity import GPU_IDENTITY
from ..tables.gpu_link_sample import GPU_LINK_SAMPLE
from ..tables.gpu_sample import GPU_SAMPLE
from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._exposition_lines import read_samples
from ._gpu_series import series_frame
from ._sample_rows import told_apart
from ._sample_tables import placed, tables_of
from ._scrape_pages import MARKER, NAME_TIME, Page, page_frame, pages_of

_TS = Option(
    "ts", "time of the scrape, of pages without marker and timestamps: RFC 3339 or epoch s"
)
_NODE = Option(
    "node", "host of pages whose series have no host label (dcgm-exporter 1.x, nvidia_smi)"
)
_NO_NODE = (
    "no host label (Hostname, hostname, node): state --set node=NAME or node= in the page marker"
)
_NO_GPU = (
    "no GPU in the labels (UUID, uuid, gpu_uuid; or a serial_number that only one GPU has): keep that "
    "label when relabelling; device-metrics-exporter prints it with the label GPU_UUID switched on"
)
_BAD_TIME = "timestamp is not between 2000 and 2100: ms in the text format, s in OpenMetrics"
_SAMPLE = re.compile(rb"[a-zA-Z_:][\w:.]*\s*(?:\{.*\}\s*|\s)[-+.\dNI]")
_SNIFF = re.compile(
    rb"^(?:# (?:HELP|TYPE|UNIT) )?(?:DCGM_(?:FI|EXP)_|dcgm_|nvidia_smi_|rocm_|amd_gpu_"
    rb"|gpu_(?:gfx_activity|umc_activity|power_usage|package_power|energy_consumed|total_vram|clock|ecc_))"
    rb"\w*[ {]",
    re.MULTILINE,
)


def _looks_like_pages(head: bytes, _file_name: str) -> bool:
    """A GPU metric in a file whose first line beside comments is a sample: no prose, no CSV."""
    first = re.search(rb"^[^\S\n]*([^#\s].*)", head, re.MULTILINE)
    return bool(_SNIFF.search(head)) and (first is None or bool(_SAMPLE.match(first.group(1))))


@source(
    outputs=(GPU_SAMPLE, GPU_SAMPLE_EXTRA, GPU_IDENTITY, GPU_LINK_SAMPLE),
    options=(_TS, _NODE),
    name_facts=NAME_TIME,
    sniff=_looks_like_pages,
)
def dcgm_exporter(lines: pl.DataFrame, context: Context) -> Parsed:
    """Prometheus exposition pages of GPU exporters, text format 0.0.4 and OpenMetrics 1.0.

    Read: dcgm-exporter 1.x (`dcgm_*`), 2.x to 4.5 (classic DCGM names), 4.6 (renamed fields) and
    4.6.1 (base-unit twins); nvidia_gpu_exporter (`nvidia_smi_*`); AMD's device-metrics-exporter
    (`gpu_*`, also with its usual prefix `amd_`), omnistat (`rocm_*`) and amd_smi_exporter (`amd_gpu_*`).
    Fields of single NVLinks go to gpu_link_sample, versions and serial numbers in labels to
    gpu_identity, every other metric of the page to gpu_sample_extra. Names and units come from
    signals.toml, HELP and TYPE are not believed.

    A file may hold many pages, each behind a line `# fleetmark scrape ts=TIME [node=NAME]`; the
    time of a page without that is the option `ts` or a time in the file's name, and a sample with
    neither is rejected. What a sample says itself (timestamp, host label) goes before the marker,
    the marker before the options. A page is turned into rows as a whole, so a page without a marker
    behind it is held until the file ends.

    Not read: who used the GPU (pod, container, hpc_job labels: allocations come from the
    scheduler); exemplars; created-timestamps.
    """
    markers = lines.filter(pl.col("text").str.starts_with(MARKER))
    held_from = None
    if not context.at_end and lines.height:
        held_from = int((markers["line_no"].tail(1) if markers.height else lines["line_no"])[0])
        lines = lines.filter(pl.col("line_no") < held_from)
        markers = markers.filter(pl.col("line_no") < held_from)
    samples, unread = read_samples(lines, markers["line_no"])
    samples = told_apart(samples)
    comment_count = lines.height - samples.height - unread.height
    pages = pages_of(markers, context)
    series = series_frame(samples["labels"])
    samples = placed(samples, series, pages)
    wrong = _without_place(samples, series, pages)
    bad = [unread]
    if wrong.height:
        samples = samples.join(wrong, on="line_no", how="anti", maintain_order="left")
        bad.append(rejects(lines.join(wrong, on="line_no", how="inner"), pl.col("reason")))
    nowhere = markers.join(_unreadable(pages), on="line_no", how="inner")
    bad.append(rejects(nowhere, pl.col("reason")))
    cluster = pl.lit(context.options["cluster"]).alias("cluster")
    tables = tables_of(samples, series, page_frame(pages))
    return Parsed(
        tables={name: rows.with_columns(cluster) for name, rows in tables.items()},
        rejects=pl.concat(bad).sort("line_no"),
        skipped=comment_count - nowhere.height,
        held_from=held_from,
    )


def _unreadable(pages: Sequence[Page]) -> pl.DataFrame:
    """Markers without a readable time, as (line_no, reason)."""
    return pl.DataFrame(
        [(page.line_no, page.problem) for page in pages[1:] if page.ts is None],
        schema={"line_no": pl.Int64(), "reason": pl.String()},
        orient="row",
    )


def _without_place(
    samples: pl.DataFrame, series: pl.DataFrame, pages: Sequence[Page]
) -> pl.DataFrame:
    """Samples whose time, node or GPU is not known, as (line_no, reason)."""
    known = (
        all(page.ts for page in pages if page.line_no)
        and (pages[0].ts or samples["page"].min() != 0)
        and not samples["is_own"].any()
        and not series["node"].has_nulls()
        and not series["lost"].any()
    )
    if known:
        return samples.clear().select("line_no", pl.lit("").alias("reason"))
    reason = (
        pl.when("is_own").then(pl.when(pl.col("own_ts").is_null()).then(pl.lit(_BAD_TIME)))
        .when(pl.col("page_ts").is_null()).then("problem")
    )  # fmt: skip
    no_node = pl.col("node").is_null() & pl.col("page_node").is_null()
    no_gpu = pl.col("lost") & (pl.col("table") != "gpu_sample_extra")
    return (
        samples.join(page_frame(pages), on="page", how="left", maintain_order="left")
        .join(
            series.select("series", "node", "lost"), on="series", how="left", maintain_order="left"
        )
        .select(
            "line_no",
            pl.coalesce(
                reason,
                pl.when(no_node).then(pl.lit(_NO_NODE)),
                pl.when(no_gpu).then(pl.lit(_NO_GPU)),
            ).alias("reason"),
        )
        .drop_nulls("reason")
    )
