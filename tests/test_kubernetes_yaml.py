"""Kubernetes objects as YAML: the rows of the same objects as JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed
from fleetmark.testing import Case, cases_of
from tests.test_sources import CASES

SOURCE = load_catalog().sources["kubernetes"]
POD = """apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: 2026-11-30T10:53:45Z
  labels: {job-name: train, training.kubeflow.org/job-name: "0123"}
  name: %s
  namespace: ml
  uid: u-%s
spec:
  containers:
  - name: c
    resources:
      limits:
        nvidia.com/gpu: "8"
  nodeName: gpu01
status:
  phase: Running
  startTime: "2026-11-30T10:53:50Z"
"""


class Plain(yaml.CSafeDumper):
    """No anchors, as kubectl prints."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - none is ever made
        return True


def parsed(content: bytes | str, **options: str) -> Parsed:
    stated = {**SOURCE.defaults, **options}
    data = content.encode() if isinstance(content, str) else content
    return SOURCE.parse(data, Context("x", stated))  # type: ignore[arg-type]  # a document


def reasons(content: bytes | str) -> list[str]:
    return parsed(content).rejects["reason"].to_list()


def pods(content: bytes | str) -> list[str]:
    found = parsed(content).tables["queue_event"]
    frame = found.collect() if isinstance(found, pl.LazyFrame) else found
    return sorted(frame["pod"].unique().drop_nulls().to_list())


def values(text: str) -> list[Any]:
    """JSON values that follow each other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


@pytest.mark.parametrize(
    "case", cases_of(CASES, "sources", "kubernetes"), ids=lambda c: c.folder.name
)
def test_the_same_objects_as_yaml_give_the_same_rows(case: Case) -> None:
    text = case.input.read_text()
    # A case whose JSON is damaged has no YAML.
    as_yaml = yaml.dump_all(values(text), Dumper=Plain, sort_keys=False)
    assert SOURCE.sniff(as_yaml[: 64 << 10].encode(), "x")
    expected, found = parsed(text), parsed(as_yaml)
    assert_frame_equal(found.rejects.drop("text"), expected.rejects.drop("text"))
    assert found.skipped == expected.skipped
    for name, frame in expected.tables.items():
        assert_frame_equal(found.tables[name].lazy().collect(), frame.lazy().collect())


def test_documents_apart_and_times_that_are_not_quoted() -> None:
    both = f"# two pods\n---\n{POD % ('a', 'a')}---\n{POD % ('b', 'b')}...\n"
    assert pods(both) == ["a", "b"]
    assert reasons(both) == []


def test_one_damaged_document_leaves_the_others() -> None:
    damaged = "kind: Pod\nmetadata: [\n"
    content = f"{POD % ('a', 'a')}---\n{damaged}---\n{POD % ('b', 'b')}"
    assert pods(content) == ["a", "b"]
    # The pod has 18 lines, the mark is the 19th; the sequence is not closed before the document's end.
    (reason,) = reasons(content)
    assert reason.startswith("YAML, line 2")
    assert "did not find expected" in reason


def test_aliases_are_refused_so_that_nothing_grows() -> None:
    laughs = "a0: &a0 [ha, ha]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    (reason,) = reasons(f"kind: Pod\n{laughs}")
    assert reason.startswith("YAML, line 3: an alias")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kind: Pod\nmetadata: " + "[" * 300 + "]" * 300 + "\n", "nested more than 200 deep"),
        ("kind: Pod\nmetadata: " + "[" * 50_000, "exceeded maximum nesting depth"),
        ("kind: Pod\n? [a]\n: b\n", "a key that is no text"),
        ("kind: Pod\nname: a\x07b\n", "control characters are not allowed"),
        ("kind: Pod\n\tname: a\n", "found a tab"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_one_reject(content: str, says: str) -> None:
    (reason,) = reasons(content)
    assert says in reason


def test_tags_make_no_objects() -> None:
    tagged = POD % ("a", "a") + "  message: !!python/object/apply:os.system [false]\n"
    assert pods(tagged) == ["a"]


def test_a_cut_end_is_no_shorter_pod() -> None:
    whole = POD % ("a", "a")
    cut = whole[: whole.index("status:")] + "status:\n  phase: Run"
    assert pods(f"{whole}---\n{cut.replace('name: a', 'name: b')}") == ["a"]
    assert reasons(cut) == ["the file does not end with a line's end: cut there?"]
    pod = whole.replace("2026-11-30T10:53:45Z", '"2026-11-30T10:53:45Z"')
    listed = yaml.dump({"items": [yaml.safe_load(pod)]}, Dumper=Plain)
    assert pods(f"apiVersion: v1\n{listed}kind: List") == ["a"]
    assert reasons(f"apiVersion: v1\n{listed}") == [
        "no Kubernetes object: kind or metadata.name lacks"
    ]


@pytest.mark.parametrize(
    "table",
    [
        "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE   IP       NODE\nml   a   1/1   Running   0   3d   10.0.0.1   n1\n",
        "NAME   QUEUE   RESERVED IN   ADMITTED   FINISHED   AGE\nw   q   cq   True   True   3d\n",
        "LAST SEEN   TYPE     REASON      OBJECT   MESSAGE\n3m   Normal   Scheduled   pod/a   ok\n",
    ],
)
def test_kubectls_tables_are_refused_with_what_to_collect(table: str) -> None:
    assert SOURCE.sniff(table.encode(), "x")
    (reason,) = reasons(table)
    assert "kubectl's table" in reason
    assert "-o json" in reason


def test_a_kubeconfig_is_not_taken_for_objects() -> None:
    config = b"apiVersion: v1\nkind: Config\nclusters: []\nusers:\n- name: u\n  user: {token: t}\n"
    assert not SOURCE.sniff(config, str(Path("config")))
