"""Two readers of JSON records, one for what is plain and one for anything, say the same."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import polars as pl
import pytest

from fleetmark.source import Context

decoded: Any = import_module("fleetmark.ingest._json_decoded").decoded
_records: Any = import_module("fleetmark.ingest._json_records")
by_duckdb, read_records = _records._by_duckdb, _records.read_records
FORM = _records.Form(
    marker=("$.name", "$.about.name"),
    envelopes=("$.Records", "$.body.log", "$.message"),
    fields={"name": "$.name", "inner": "$.about.name", "first": "$.ips[0]", "any": "$.v", "odd": '$.about."x-y"'},
)  # fmt: skip
VALUES = (
    '"x"', '""', r'"a\\"', r'"\\\""', r'"\u001b\u000a\u0000"', r'"\\u001b"',
    r'"\\\u001f"', r'"\/ \u00e9"', r'"\u0022q"', r'"\ud83d\ude00"', "null", "true", "0", "-0", "1.50", "-0.0", "1e3",
    "0.1234567890123456789", "18446744073709551616", "123456789012345678901234567890", "{}", "[]",
    '[1, 2.0,"é"]', r'{"b": 1, "a": {"z": null, "c": "\u001b\\u001b"}}',
)  # fmt: skip
RECORD = '{{"name": "n", "v": {0}, "about": {{"x-y": {0}, "name": 5}}, "ips": [{0}]}}'
PLAIN = (
    *(RECORD.format(value) for value in VALUES),
    '{"v":1}', '[{"name":"a"},{"v": 2},{"about":{"name":"b"}}]', "[]", '{"Records":[]}', ' {"name":1} ',
    '{"Records":[{"name":"a"},{"message":"{\\"name\\": \\"b\\"}"}]}', '{"name":"a"},', '{"body":{"log":{"name":"c"}}}',
    '{"about":[],"ips":{},"name":"d"}', '[{"Records":[{"message":"{\\"name\\":1}"}]}]',
)  # fmt: skip
DOUBTFUL = (
    '{"name":"a","name":"b"}', r'{"name":"a","n\u0061me":"b\\"}', '{"name":"a","v":{"k":1,"k":2}}',
    '{"Records":[{"name":"a"}],"Records":[{"name":"b"},{"name":"c"}]}', '{"name":NaN}', '{"name":1e400}',
    r'{"name":"\u005c"}', '{"name":1e-7}', '{"name":1e22}', '{"name":"a",}', r'{"name":"\ud800"}', r'{"name":"\q"}', '{"name":01}',
    '{"name":"a"', '{"name":"a\tb"}', '{"name":"a"}{"name":"b"}', '[{"name":"a"}', '{"Records":null,"message":"x"}',
    '{"Records":["a",{"name":"b"}]}', '{"message":"12"}', '{"name":' + "9" * 5000 + "}",
    '{"name":"a","v":' + '{"a":' * 3000 + "1" + "}" * 3001, "12", "x", '"x"',
)  # fmt: skip


def lines_of(texts: tuple[str, ...]) -> pl.DataFrame:
    return pl.DataFrame({"line_no": range(1, len(texts) + 1), "text": list(texts)})


def test_plain_records_read_as_duckdb_reads_them() -> None:
    lines = lines_of(PLAIN)
    rows, left = decoded(lines, FORM.marker, FORM.fields, FORM.envelopes)
    assert left.is_empty()
    expected = by_duckdb(lines, FORM)
    assert rows.filter("is_record").equals(expected.filter("is_record"))
    told = ["line_no", "record", "text", "is_record", "is_object"]
    assert rows.select(told).equals(expected.select(told))


@pytest.mark.parametrize("text", DOUBTFUL, ids=range(len(DOUBTFUL)))
def test_what_readers_disagree_about_is_left_whole(text: str) -> None:
    lines = lines_of((text,))
    rows, left = decoded(lines, FORM.marker, FORM.fields, FORM.envelopes)
    assert rows.is_empty()
    assert left.equals(lines)


def test_both_kinds_of_lines_stand_in_the_order_of_the_file() -> None:
    texts = tuple(text for pair in zip(PLAIN, DOUBTFUL, strict=False) for text in pair)
    lines = lines_of(texts)
    found = read_records(lines, Context("x"), FORM)
    expected = by_duckdb(lines, FORM)
    good = expected.filter("is_record").drop("is_record", "is_object")
    assert found.rows.equals(good)
    refused = expected.filter(~pl.col("is_record"))
    assert found.rejects["line_no"].to_list() == refused["line_no"].to_list()


def test_the_first_of_repeated_names_counts() -> None:
    text = json.dumps({"name": "b"})[:-1] + ', "name": "c"}'
    assert read_records(lines_of((text,)), Context("x"), FORM).rows["name"].to_list() == ["b"]


@pytest.mark.parametrize("depth", range(12))
def test_an_envelope_of_any_depth_is_a_row_or_refused(depth: int) -> None:
    text = '{"Records":[' * depth + '{"name":"a"}' + "]}" * depth
    found = read_records(lines_of((text,)), Context("x"), FORM)
    assert found.rows.height + found.rejects.height == 1
    assert found.rows.height == (depth <= 5)
