"""Answers of Prometheus' remote read, decoded and turned into rows."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed

# By name: type checkers cannot follow the mapping of top-level folders into the package.
remote_read: Any = import_module("fleetmark.ingest.telemetry._remote_read")
messages: Any = import_module("fleetmark.benchmarks.logs.remote_read")
answer: Callable[..., bytes] = messages.answer
time_series: Callable[..., bytes] = messages.time_series
SOURCE = load_catalog().sources["prometheus_read"]
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
T0 = 1_774_008_000_000
GPU = {"gpu": "0", "UUID": "GPU-1", "Hostname": "h", "instance": "10.0.0.7:9400", "job": "dcgm"}
VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, math.inf, -math.inf, STALE]),
    st.floats(width=64, allow_nan=False),
    # Second halves that look like first halves or whole samples of 9 bytes.
    st.sampled_from([b"\0\0\0\0\0\0\x12\x10", b"\0\0\0\0\0\0\x12\x07"]).map(
        lambda raw: struct.unpack("<d", raw)[0]
    ),
)
TIMES = st.one_of(st.integers(T0, T0 + 10**6), st.sampled_from([0, 1, 2**35 - 1, 2**42, 2**62]))
POINTS = st.lists(st.tuples(VALUES, TIMES), max_size=6)


@settings(deadline=None, max_examples=60)
@given(st.lists(POINTS, max_size=5))
def test_every_sample_comes_out_bit_for_bit(several: list[list[tuple[float, int]]]) -> None:
    found = remote_read.read_answer(
        answer(*(time_series({"__name__": f"m{n}"}, points) for n, points in enumerate(several)))
    )
    want = [
        (n, struct.pack("<d", value or 0.0), time)
        for n, points in enumerate(several) for value, time in points
    ]  # fmt: skip
    got = zip(found.series, found.value, found.time_ms, strict=True)
    assert [(int(n), struct.pack("<d", v), int(t)) for n, v, t in got] == want
    assert [dict(labels)["__name__"] for labels in found.labels] == [
        f"m{n}" for n in range(len(several))
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_answer_is_refused_not_raised(at: int, byte: int) -> None:
    whole = answer(
        time_series({"__name__": "DCGM_FI_DEV_GPU_TEMP", **GPU}, [(40.0, T0), (0.0, T0 + 1)])
    )
    damaged = bytearray(whole)
    damaged[at % len(whole)] = byte
    for content in (bytes(damaged), whole[: at % len(whole)]):
        parsed = read(content)
        assert set(parsed.tables) <= {table.name for table in SOURCE.outputs}
        assert parsed.tables or parsed.rejects["reason"][0].startswith(
            "not an answer of Prometheus"
        )


def read(content: bytes, **options: str) -> Parsed:
    chosen = {"cluster": "c", "node_label": ""} | options
    return SOURCE.parse(content, Context("x", chosen))  # type: ignore[arg-type]  # a document


def rows(parsed: Parsed, table: str = "gpu_sample") -> pl.DataFrame:
    return parsed.tables[table].lazy().collect()


def test_staleness_markers_are_never_values() -> None:
    def one(name: str, points: list[tuple[float, int]], **labels: str) -> bytes:
        return time_series({"__name__": f"DCGM_FI_DEV_{name}", **GPU, **labels}, points)

    parsed = read(answer(
        one("GPU_TEMP", [(40, T0), (STALE, T0 + 15_000)]),
        # The pod left: its series ends where the one without pod begins.
        one("POWER_USAGE", [(300, T0), (STALE, T0 + 15_000)], pod="p"),
        one("POWER_USAGE", [(310, T0 + 15_000), (STALE, T0 + 30_000)]),
        one("OF_TOMORROW", [(7, T0), (STALE, T0 + 30_000)]),
    ))  # fmt: skip
    found = rows(parsed).select("ts", "gpu_temp_c", "power_w", "quality")
    assert [row[1:] for row in found.rows()] == [
        (40, 300.0, []),
        (None, 310.0, ["gpu_temp_c:stale"]),
    ]
    assert rows(parsed, "gpu_sample_extra")["value"].to_list() == [7.0]
    assert parsed.skipped == 2


def test_series_that_cannot_be_placed_are_rejected_with_the_remedy() -> None:
    name = "DCGM_FI_DEV_GPU_TEMP"
    no_host = {k: v for k, v in GPU.items() if k != "Hostname"}
    content = answer(
        time_series({"__name__": name, **no_host}, [(40, T0), (41, T0 + 15_000)]),
        time_series({"__name__": name, "Hostname": "h", "gpu": "0"}, [(40, T0)]),
        time_series({"__name__": name, **GPU}, [(40, 12)]),
    )
    parsed = read(content)
    assert rows(parsed).is_empty()
    assert parsed.rejects["line_no"].to_list() == [1, 3, 4]
    for sign, reason in zip(("node_label", "UUID", "2100"), parsed.rejects["reason"], strict=True):
        assert sign in reason
    assert rows(read(content, node_label="instance"))["node"].to_list() == ["10.0.0.7"] * 2
