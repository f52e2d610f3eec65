"""Pages of inference servers."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from ..tables.serving_sample import SERVING_LATENCY, SERVING_SAMPLE
from ..telemetry._scrape_pages import NAME_TIME
from ..telemetry._timed_samples import timed_samples
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
            rb"^(?:# \w+ )?(?:(?:ray_)?(?:vllm|sglang)[:_]|tgi_|nv_inference_request_)",
            head,
            re.MULTILINE,
        )
        is not None
    ),
)
def serving_metrics(lines: pl.DataFrame, context: Context) -> Parsed:
    """Prometheus pages of vLLM, SGLang, TGI and Triton (with TensorRT-LLM): requests, tokens, latencies.

    `_serving_names.py` lists the metrics and the releases' documents they come from. A page does not say
    when it was scraped: see the page markers of `dcgm_exporter`. The replica is a label pod, else the
    option, else the label instance, else the marker's node. Where Ray serves vLLM
    or SGLang its own replicas count, several in a pod. Series of several engines, data-parallel
    ranks, outcomes or versions of one model are summed; of a cache's use the mean is kept. Of SGLang and
    vLLM the time per output token is the per-request histogram where there is one, else per token.
    TGI exports no time to the first token, Triton none per token. Other metrics are skipped.
    """
    if not counts_gpus(context.options["gpu_count"]):
        why = f"gpu_count {context.options['gpu_count']!r} is no number; --set gpu_count=N"
        return Parsed({}, pl.DataFrame([(0, why, "")], REJECTS_SCHEMA, orient="row"), lines.height)
    timed = timed_samples(lines, context, pl.col("name").str.contains(NAMES))
    found = serving_rows(timed.samples, context.options)
    lost = rejects(lines.join(found.lost, on="line_no"), NO_REPLICA)
    refused = pl.concat([timed.rejects, lost]).sort("line_no")
    skipped = timed.skipped + found.other_count
    return Parsed(found.tables, refused, skipped, timed.held_from)
