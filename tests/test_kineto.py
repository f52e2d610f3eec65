"""Kineto traces that are cut or damaged: what stands before the damage is read."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.run import ingest
from fleetmark.source import Context, Parsed
from fleetmark.store import Store
from fleetmark.testing import EPOCH

CATALOG = load_catalog()
PACKED = Path("samples/collectives/kineto/sampled_rank-0.json.gz")
SAMPLE = gzip.decompress(PACKED.read_bytes())
STEPS = 2


def parse(content: bytes) -> Parsed:
    options = {"cluster": "c", "job_id": "j", "attempt": "1"}
    return CATALOG.sources["kineto"].parse(content, Context("rank-0.json", options))  # type: ignore[arg-type]  # a document


WHOLE = parse(SAMPLE).tables["trace_span"].lazy().collect()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.77, 0.9999999])
def test_a_cut_trace_gives_the_events_before_the_cut(share: float) -> None:
    part = SAMPLE[: int(len(SAMPLE) * share)]
    parsed = parse(part)
    spans = parsed.tables["trace_span"].lazy().collect()
    (reject,) = parsed.rejects.rows(named=True)
    before = part.count(b'{"ph": ') - (0 if part.endswith(b"}") or share > 0.99 else 1)
    assert reject["line_no"] == before + 1
    assert f"only the {before} events before" in reject["reason"]
    known = ["span_no", "kind", "name", "ts", "duration_s", "function"]
    want = WHOLE.filter(pl.col("span_no") <= before)
    assert spans.select(known).equals(want.select(known))
    sums = parsed.tables["step_sample"].lazy().collect()
    assert sums["compute_s"].null_count() == sums.height


def test_damage_inside_keeps_what_stands_before() -> None:
    half = len(SAMPLE) // 2
    parsed = parse(SAMPLE[:half] + b"\x01{]" + SAMPLE[half + 3 :])
    spans = parsed.tables["trace_span"].lazy().collect()
    assert parsed.rejects.height == 1
    assert 0 < spans.height < WHOLE.height
    assert parse(SAMPLE + b"\nx").tables["trace_span"].lazy().collect().equals(WHOLE)


def test_a_cut_gzip_gives_its_readable_part_and_then_the_whole(
    tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    path = tmp_path / "rank-0.json.gz"
    packed = PACKED.read_bytes()
    path.write_bytes(packed[: len(packed) // 2])
    with new_store("store") as store:
        (report,) = ingest(store, CATALOG, "kineto", [path], {}, {}, EPOCH)
        assert 0 < report.row_count < WHOLE.height
        assert report.reject_count == 2  # the gzip's damage and the trace's
        path.write_bytes(packed)
        (report,) = ingest(store, CATALOG, "kineto", [path], {}, {}, EPOCH)
        assert report.reject_count == 0
        assert report.row_count == WHOLE.height + STEPS
