"""Pages of inference servers."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from ..tables.serving_sample import SERVING_LATENCY, SERVING_SAMPLE
from ..telemetry._exposition import read_samples
from ..telemetry._scrape_pages import MARKER, NAME_TIME, own_times, page_frame, pages_of
from ._serving_names import NAMES
from ._serving_rows import serving_rows

NO_REPLICA = "no pod or instance in the labels; --set replica=NAME"
GPU_COUNT = Option("gpu_count", "GPUs of each replica: servers do not export it", "")
REPLICA = Option("replica", "the server of pages that name none: exporters rarely do", "")


def counts_gpus(options: str) -> bool:
    """Is the stated number of GPUs none, or one from 1 on?"""
    return re.fullmatch(r"(?:[1-9][0-9]{0,6})?", options) is not None


@source(
    outputs=(SERVING_SAMPLE, SERVING_LATENCY),
    options=(
        Option("ts", "time of the scrape, of pages without marker: RFC 3339 or epoch s"),
        Option("node", "host of pages that name none"),
        REPLICA,
        GPU_COUNT,
    ),
    name_facts=rf"^.*?{NAME_TIME}",
    sniff=lambda head, _name: (
        re.search(
            rb"^(?:# \w+ )?(?:(?:vllm|sglang):|tgi_|nv_inference_request_)", head, re.MULTILINE
        )
        is not None
    ),
)
def serving_metrics(lines: pl.DataFrame, context: Context) -> Parsed:
    """Prometheus pages of vLLM, SGLang, TGI and Triton (with TensorRT-LLM): requests, tokens, latencies.

    `_serving_names.py` lists the metrics and the releases' documents they come from. A page does not say
    when it was scraped: see the page markers of `dcgm_exporter`. The replica is a label pod, else the
    option, else the label instance, else the marker's node. Series of several engines, data-parallel
    ranks, outcomes or versions of one model are summed; of a cache's use the mean is kept. Of SGLang and
    vLLM the time per output token is the per-request histogram where there is one, else per token.
    TGI exports no time to the first token, Triton none per token. Other metrics are skipped.
    """
    if not counts_gpus(context.options["gpu_count"]):
        why = f"gpu_count {context.options['gpu_count']!r} is no number; --set gpu_count=N"
        return Parsed({}, pl.DataFrame([(0, why, "")], REJECTS_SCHEMA, orient="row"), lines.height)
    markers = lines.filter(pl.col("text").str.starts_with(MARKER))
    held_from = None
    if not context.at_end and lines.height:
        held_from = int((markers["line_no"].tail(1) if markers.height else lines["line_no"])[0])
        lines = lines.filter(pl.col("line_no") < held_from)
        markers = markers.filter(pl.col("line_no") < held_from)
    pages = pages_of(markers, context)
    samples, unread = read_samples(lines)
    starts = pl.Series([page.line_no for page in pages[1:]], dtype=pl.Int64)
    placed = samples.with_columns(
        starts.search_sorted(samples["line_no"], side="right").cast(pl.UInt32).alias("page"),
        own_times(samples["time"]).alias("own_ts"),
        pl.col("name", "labels").cast(pl.String),
    ).filter(pl.col("name").str.contains(NAMES))
    placed = placed.join(page_frame(pages), on="page", how="left", maintain_order="left")
    placed = placed.with_columns(pl.coalesce("own_ts", "page_ts").alias("ts"))
    timeless = placed.filter(pl.col("ts").is_null())
    found = serving_rows(placed.filter(pl.col("ts").is_not_null()), context.options)
    bad = [
        rejects(lines.join(timeless.select("line_no", "problem"), on="line_no"), pl.col("problem")),
        rejects(lines.join(found.lost, on="line_no"), NO_REPLICA),
    ]
    refused = pl.concat([unread, *bad]).sort("line_no")
    used = placed.height - timeless.height - found.lost.height - found.other_count
    return Parsed(found.tables, refused, lines.height - refused.height - used, held_from)
