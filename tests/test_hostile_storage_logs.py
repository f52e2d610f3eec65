"""Storage logs are written by whoever sends requests: time, memory, forged lines, secrets, paths."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.run import ingest
from fleetmark.source import Context, Parsed, Source
from fleetmark.store import Store
from fleetmark.testing import EPOCH

CATALOG = load_catalog()
NAMES = (
    "cloudtrail", "minio_audit", "gcs_audit", "gcs_usage", "azure_storage", "ceph_rgw", "http_access",
    "kubernetes_audit", "huggingface_audit", "s3_access_json", "auditd", "lustre_changelog", "lustre_jobstats",
    "zeek_conn", "vpc_flow", "object_listing", "s3_inventory", "safetensors_index",
)  # fmt: skip
# Long lines (the core lets 1 MiB through), made to keep a backtracking matcher busy.
LONG = 300_000
SHAPES = {
    "quotes": '10.0.0.1 - - [14/Mar/2026:02:11:09 +0000] "' + '\\" 200 1 "' * (LONG // 10),
    "open objects": '{"a":' * (LONG // 5),
    "nested arrays": "[" * (LONG // 2) + "]" * (LONG // 2),
    "nested objects": '{"eventName":' * (LONG // 14) + "1" + "}" * (LONG // 14),
    "percent signs": "GET /" + "%25" * (LONG // 3) + " HTTP/1.1",
    "audit fields": "type=SYSCALL msg=audit(1773454269.449:1): " + "a=" * (LONG // 2),
    "changelog fields": "1 10OPEN 02:11:09.0 2026.03.14 0x7" + " t=[x" * (LONG // 5),
    "spaces": " " * (LONG - 1) + "x",
    "tabs": "\t" * LONG,
    "secrets": '{"token":"' + "token" * (LONG // 5),
}


def parse(source: Source, text: str) -> Parsed:
    context = Context("input", {o.name: o.default or "" for o in source.options}, text[:200])
    if source.reads == "document":
        return source.parse(text.encode(), context)  # type: ignore[arg-type]  # by `reads`
    lines = pl.DataFrame({"line_no": [1], "text": [text]})
    return source.parse(lines, context)  # type: ignore[arg-type]  # by `reads`


@pytest.mark.parametrize("name", NAMES)
def test_no_line_costs_more_than_its_length(name: str) -> None:
    for shape, text in SHAPES.items():
        start = time.process_time()
        parsed = parse(CATALOG.sources[name], text)
        assert time.process_time() - start < 5, shape
        assert parsed.rejects["reason"].null_count() == 0


FORGED = (
    'x"\n10.0.0.9 - root [14/Mar/2026:00:00:00 +0000] "GET /forged HTTP/1.1" 200 9\x1b[2J\u202e'
)


def test_a_line_break_in_a_value_makes_no_second_record() -> None:
    record = {
        "version": "1", "time": "2026-03-14T02:11:09Z", "trigger": "incoming", "requestID": "R",
        "api": {"name": "GetObject", "bucket": "b", "object": FORGED, "statusCode": 200},
        "userAgent": FORGED, "remotehost": FORGED,
    }  # fmt: skip
    rows = parse(CATALOG.sources["minio_audit"], json.dumps(record)).tables["storage_access"]
    frame = rows.lazy().collect()
    assert frame.height == 1
    assert frame["object_key"][0] == FORGED


@pytest.mark.parametrize("name", ["cloudtrail", "minio_audit", "azure_storage", "http_access"])
def test_secrets_stand_in_no_table_and_no_reject(name: str) -> None:
    """Signatures and tokens in requests, and in records that are refused."""
    needle = "5ecretValue"
    url = f"https://x/c/k?sig={needle}&X-Amz-Signature={needle}&X-Amz-Security-Token={needle}"
    texts = [
        json.dumps({"eventName": "CreateAccessKey", "eventTime": when, "requestParameters": {"password": needle, "u": url},
            "responseElements": {"credentials": {"sessionToken": needle}}})
        for when in ("2026-03-14T02:11:09Z", "never")
    ] + [
        json.dumps({"time": when, "trigger": "incoming", "requestID": "R", "api": {"name": "SetConfigKV"},
            "requestHeader": {"Authorization": f"Signature={needle}"}, "requestQuery": {"secretKey": needle}})
        for when in ("2026-03-14T02:11:09Z", "never")
    ] + [
        json.dumps({"time": when, "operationName": "GetBlob", "uri": url, "correlationId": "C"})
        for when in ("2026-03-14T02:11:09Z", "never")
    ] + [f'10.0.0.1 - - [14/Mar/2026:02:11:09 +0000] "GET {url} HTTP/1.1" 200 1 "{url}" "a"', f"GET {url} cut"]  # fmt: skip
    for text in texts:
        parsed = parse(CATALOG.sources[name], text)
        kept = [part.lazy().collect() for part in parsed.tables.values()]
        assert all(needle not in frame.write_json() for frame in [*kept, parsed.rejects])


def test_a_small_gzip_that_unpacks_to_a_giant_is_refused(
    tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    """300 MiB of one record in 300 KiB: a document over 256 MiB is not unpacked whole."""
    path = tmp_path / "trail.json.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(b" " * (1 << 20))
    with new_store("store") as store:
        report = next(iter(ingest(store, CATALOG, "cloudtrail", [path], {}, {}, EPOCH)))
    assert (report.row_count, report.reject_count) == (0, 1)
