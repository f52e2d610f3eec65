"""GPU telemetry out of Prometheus: answers of its remote-read and query APIs."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.gpu_identity import GPU_IDENTITY
from ..tables.gpu_link_sample import GPU_LINK_SAMPLE
from ..tables.gpu_sample import GPU_SAMPLE
from ..tables.gpu_sample_extra import GPU_SAMPLE_EXTRA
from ._exposition import labels_text
from ._gpu_series import series_frame
from ._query_answer import read_any_answer
from ._remote_read import Answer, NotAnAnswerError
from ._sample_rows import positions, signals_of, told_apart
from ._sample_tables import tables_of
from ._scrape_pages import EARLIEST, LATEST, page_frame
from ._signals import STALE

_NODE_LABEL = Option(
    "node_label",
    "label that names the host, where that is not Hostname, hostname or node; of `instance` the port "
    "is left out",
    "",
)
_NO_NODE = (
    "no host label (Hostname, hostname, node): name the one that these series have with "
    "--set node_label=LABEL, for example instance"
)
_NO_GPU = "no GPU in the labels (UUID, uuid, gpu_uuid): keep that label when relabelling"
_NO_NAME = "a series without a name"
_BAD_TIME = "timestamp is not between 2000 and 2100"
_STALE_BITS = 0x7FF0000000000002  # Prometheus' staleness marker (model/value), a NaN of its own
_HEAD_BYTES = 4096
_JSON = re.compile(rb'\s*\{\s*"status"\s*:\s*"success"\s*,\s*"data"\s*:')
_GPU_NAME = re.compile(
    rb'"__name__"\s*:\s*"(?:DCGM_|dcgm_|nvidia_|gpu_|amd_|omnistat_|rocm)', re.IGNORECASE
)


def _looks_like_answer(head: bytes, _file_name: str) -> bool:
    """Binary, with a label pair as protobuf writes it near the beginning; or JSON of series of GPUs."""
    if _JSON.match(head):
        return _GPU_NAME.search(head) is not None
    return b"\x0a\x08__name__\x12" in head[:_HEAD_BYTES] and b"\x0a" in head[1:6]


@source(
    outputs=(GPU_SAMPLE, GPU_SAMPLE_EXTRA, GPU_IDENTITY, GPU_LINK_SAMPLE),
    reads="document",
    options=(_NODE_LABEL,),
    sniff=_looks_like_answer,
)
def prometheus_read(content: bytes, context: Context) -> Parsed:
    """Answers of Prometheus' remote-read API (`/api/v1/read`), response type SAMPLES, as the server sends
    them: prompb.ReadResponse in a snappy block. `fleetmark pull prometheus` fetches and loads them. Also
    JSON of its query API, one answer or several behind one another: a range selector (`query=NAME[1h]`)
    gives the samples themselves, query_range a value per step, the last one up to five minutes old.

    What holds for exporter pages holds here: names, units, blanks, MIG, links, identities and repeated
    series go the same way (see dcgm_exporter), metrics that the registry does not know go to
    gpu_sample_extra. The time is the one Prometheus gave the sample. A staleness marker (the series ended, or its target
    could not be scraped) is never a value: beside other samples of that GPU and time it is the
    quality `stale` of an empty cell, alone it is skipped, for absence says the same.

    Not read: STREAMED_XOR_CHUNKS answers, native histograms (counted as skipped), exemplars. All
    signals of a GPU and time must come in one answer: a row once written is not added to.
    """
    try:
        answer = read_any_answer(content)
    except NotAnAnswerError as error:
        return Parsed({}, _reject(0, f"not an answer of Prometheus: {error}", ""))
    named, parts = _series(answer, context.options["node_label"])
    samples = _samples(answer, named)
    bad = _rejected(samples, named)
    if bad.height:
        samples = samples.filter(~pl.col("number").is_in(bad["number"].implode()))
    placed_count = samples.height
    if samples["value_text"].null_count() < placed_count:
        samples = _without_lone_markers(samples, parts)
    cluster = pl.lit(context.options["cluster"]).alias("cluster")
    tables = tables_of(samples, parts, page_frame([]))
    return Parsed(
        tables={name: rows.with_columns(cluster) for name, rows in tables.items()},
        rejects=bad.select(*REJECTS_SCHEMA),
        skipped=answer.other_count + placed_count - samples.height,
    )


def _reject(line_no: int, reason: str, text: str) -> pl.DataFrame:
    return pl.DataFrame([(line_no, reason, text)], schema=REJECTS_SCHEMA, orient="row")


def _series(answer: Answer, node_label: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The answer's series (number, name, what the registry says of it, position of its labels), and
    the distinct labels with what they say (`series_frame`).
    """
    names, texts = [], []
    for labels in answer.labels:
        names.append(next((value for key, value in labels if key == "__name__"), ""))
        texts.append(labels_text(tuple(pair for pair in labels if pair[0] != "__name__")))
    category = pl.Categorical(pl.Categories.random())
    name, text = pl.Series("name", names, category), pl.Series("labels", texts, category)
    parts = series_frame(text)
    if node_label:
        hosts = [_host(labels, node_label) for labels in parts["labels_json"]]
        parts = parts.with_columns(node=pl.Series(hosts, dtype=pl.String))
    position = positions(text, parts["labels"]) if len(text) else pl.Series([], dtype=pl.UInt32)
    key = told_apart(pl.DataFrame({"name": name, "labels": text}))["name"]
    named = pl.DataFrame({"name": name, "labels": text}).with_columns(
        pl.int_range(pl.len()).alias("number"),
        *(signals_of(key) if len(key) else signals_of(pl.Series([""], dtype=category)).clear()),
        position.alias("series"),
        *(parts[column].gather(position) for column in ("is_gpu", "is_link", "lost", "node")),
    )
    return named, parts


def _host(labels_json: str, node_label: str) -> str | None:
    value: str = json.loads(labels_json).get(node_label, "")
    if node_label == "instance":
        value = value.rsplit(":", 1)[0]
    return value or None


def _samples(answer: Answer, named: pl.DataFrame) -> pl.DataFrame:
    """Samples as `wide_rows` takes them; `own_ts` is NULL where the time is none."""
    is_stale = answer.value.view(np.uint64) == _STALE_BITS
    value = pl.Series(answer.value)
    if is_stale.any():
        value = value.set(pl.Series(is_stale), None)
    ts = pl.Series(answer.time_ms * 1000).cast(pl.Datetime("us"))
    inside = (ts >= EARLIEST.replace(tzinfo=None)) & (ts < LATEST.replace(tzinfo=None))
    per_series = named.drop("labels", "lost", "node")
    return per_series[answer.series].with_columns(
        pl.int_range(1, len(value) + 1, dtype=pl.Int64, eager=True).alias("line_no"),
        pl.lit(0, pl.UInt32).alias("page"),
        (ts if inside.all() else ts.set(~inside, None)).alias("own_ts"),
        value.alias("value"),
        pl.when(pl.Series(is_stale)).then(pl.lit(STALE)).alias("value_text"),
    )


def _rejected(samples: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Series that cannot be placed, each at its first sample: number, line_no, reason, text."""
    reason = (
        pl.when(pl.col("name").cast(pl.String) == "").then(pl.lit(_NO_NAME))
        .when(pl.col("node").is_null()).then(pl.lit(_NO_NODE))
        .when(pl.col("lost") & (pl.col("table") != "gpu_sample_extra")).then(pl.lit(_NO_GPU))
    )  # fmt: skip
    text = pl.concat_str(
        pl.col("name").cast(pl.String), pl.lit("{"), pl.col("labels").cast(pl.String), pl.lit("}")
    )
    wrong = named.select("number", reason.alias("reason"), text.alias("text"))
    untimed = samples.filter(pl.col("own_ts").is_null())["number"].unique()
    wrong = wrong.with_columns(
        pl.when(pl.col("number").is_in(untimed.implode()))
        .then(pl.coalesce("reason", pl.lit(_BAD_TIME)))
        .otherwise("reason")
    ).drop_nulls("reason")
    first = samples.group_by("number").agg(pl.col("line_no").min())
    return wrong.join(first, on="number").sort("line_no")


def _without_lone_markers(samples: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """Without the staleness markers at whose time the GPU (or instance) has nothing else."""
    gpu, instance = (parts[who].gather(samples["series"]) for who in ("gpu", "entity"))
    is_marker = pl.col("value_text").is_not_null()
    on_gpu = ((pl.col("table") == "gpu_sample") & pl.col("is_gpu")).fill_null(value=False)
    judged = samples.with_columns(
        pl.when("instance").then(instance).otherwise(gpu).alias("entity"), on_gpu.alias("on_gpu")
    ).with_columns(is_marker.all().over("on_gpu", "entity", "own_ts").alias("is_alone"))
    return judged.filter(~is_marker | (~pl.col("is_alone") & on_gpu)).drop(
        "entity", "on_gpu", "is_alone"
    )
