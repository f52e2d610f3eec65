"""Inference servers' metrics out of Prometheus: answers of its remote-read API."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source

from ..tables.serving_sample import SERVING_LATENCY, SERVING_SAMPLE
from ..telemetry._exposition import labels_text
from ..telemetry._query_answer import read_any_answer
from ..telemetry._remote_read import Answer, NotAnAnswerError
from ..telemetry._scrape_pages import EARLIEST, LATEST
from ._serving_names import NAMES
from ._serving_rows import serving_rows
from .serving_metrics import GPU_COUNT, NO_REPLICA, REPLICA, counts_gpus

_NAME = re.compile(
    rb'"__name__"\s*:\s*"(?:(?:ray_)?(?:vllm|sglang)[:_]|tgi_|nv_(?:inference|trt_llm|llm)_)'
)


@source(
    outputs=(SERVING_SAMPLE, SERVING_LATENCY),
    reads="document",
    options=(REPLICA, GPU_COUNT),
    sniff=lambda head, _name: b'"resultType"' in head and _NAME.search(head) is not None,
)
def serving_read(content: bytes, context: Context) -> Parsed:
    """Answers of remote read, or JSON of the query API, with metrics of vLLM, SGLang, TGI and Triton, as `serving_metrics` reads pages.

    `fleetmark pull prometheus URL --source serving_read` fetches them. The time is the one Prometheus
    gave the sample; staleness markers and times outside 2000 to 2100 are skipped. Answers of remote read
    are not told apart from those of `prometheus_read` by `ingest auto`: name the source. `line_no` is the sample's place.
    """
    if not counts_gpus(context.options["gpu_count"]):
        return _whole(f"gpu_count {context.options['gpu_count']!r} is no number; --set gpu_count=N")
    try:
        answer = read_any_answer(content)
    except NotAnAnswerError as error:
        return _whole(f"not an answer of Prometheus: {error}")
    samples = _samples(answer)
    good = samples.filter(pl.col("name").str.contains(NAMES) & pl.col("ts").is_not_null())
    found = serving_rows(good, context.options)
    lost = good.join(found.lost, on="line_no").unique("labels", keep="first", maintain_order=True)
    refused = lost.select(
        "line_no", pl.lit(NO_REPLICA).alias("reason"), pl.col("labels").alias("text")
    )
    other = samples.height - good.height + found.other_count
    return Parsed(found.tables, refused, other + answer.other_count)


def _samples(answer: Answer) -> pl.DataFrame:
    names = [next((v for k, v in labels if k == "__name__"), "") for labels in answer.labels]
    texts = [
        labels_text(tuple(pair for pair in labels if pair[0] != "__name__"))
        for labels in answer.labels
    ]
    series = pl.DataFrame({"name": names, "labels": texts},
                          schema={"name": pl.String(), "labels": pl.String()})  # fmt: skip
    ts = pl.Series(answer.time_ms * 1000).cast(pl.Datetime("us"))
    inside = (ts >= EARLIEST.replace(tzinfo=None)) & (ts < LATEST.replace(tzinfo=None))
    return series[answer.series].with_columns(
        pl.int_range(1, len(ts) + 1, dtype=pl.Int64, eager=True).alias("line_no"),
        pl.Series(answer.value).alias("value"),
        ts.set(~inside, None).alias("ts"),
        pl.lit(None, pl.String).alias("page_node"),
    )


def _whole(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, REJECTS_SCHEMA))
