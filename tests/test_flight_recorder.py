"""Flight Recorder: hostile pickles do nothing, and no bytes make the source raise."""

from __future__ import annotations

import json
import pickle
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.load import options_of
from fleetmark.source import Context, Parsed
from fleetmark.testing import complete, compute

pickle_data = import_module("fleetmark.ingest.collectives.pickle_data")
flight_recorder = import_module("fleetmark.ingest.collectives.flight_recorder").flight_recorder
load_plain_data = pickle_data.load_plain_data

DUMPS = sorted((Path(__file__).parent.parent / "samples/collectives/fr_traces").glob("*/_dump_*"))


def parse(content: bytes, name: str = "_dump_3", **options: str) -> Parsed:
    values = options_of(flight_recorder, Path(name), options, {})
    parsed = flight_recorder.parse(content, Context(name, values))
    assert isinstance(parsed, Parsed)
    return parsed


def table(parsed: Parsed, name: str) -> pl.DataFrame:
    frame = parsed.tables[name]
    assert isinstance(frame, pl.DataFrame)
    return frame


def reasons(parsed: Parsed) -> list[str]:
    return parsed.rejects["reason"].to_list()


class _ClassFree(pickle.Unpickler):
    """Python's own decoder with every import refused: the reference for what a file says."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise AssertionError(f"{module_name}.{global_name}")


def reference(content: bytes) -> Any:
    return _ClassFree(BytesIO(content)).load()


def entry(**fields: Any) -> dict[str, Any]:
    return {
        "record_id": 7,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 5,
        "p2p_seq_id": 0,
        "op_id": 5,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_758_610_505_880_883_597,
        "input_sizes": [[8, 2]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[8, 2]],
        "output_dtypes": ["BFloat16"],
        "state": "completed",
        "time_discovered_started_ns": 1_758_610_505_880_884_000,
        "time_discovered_completed_ns": 1_758_610_505_880_885_000,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    } | fields


def dump(*entries: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": 5,
                "last_started_collective": -1,
                "last_completed_collective": 5,
            }
        },
        "entries": list(entries),
    } | top


# --- the real dumps


def test_every_real_dump_gives_what_pythons_decoder_reads() -> None:
    assert len(DUMPS) == 32
    count = 0
    for path in DUMPS:
        content = path.read_bytes()
        said = reference(content)
        assert load_plain_data(content) == said
        parsed = parse(content, path.name)
        rows = table(parsed, "collective")
        count += rows.height
        assert parsed.rejects.is_empty()
        assert rows["record_id"].to_list() == [e["record_id"] for e in said["entries"]]
        assert rows["pg_name"].to_list() == [e["process_group"][0] for e in said["entries"]]
        assert set(rows["rank"]) <= {int(path.name.removeprefix("_dump_"))}
    # 431 entries, counted with Python's decoder; the two blocked ranks have none.
    assert count == 431


def test_ids_and_names_of_groups_agree_with_the_entries() -> None:
    """The alignment of pg_status (by id) and pg_config (by name), checked where entries say both."""
    for path in DUMPS:
        said = reference(path.read_bytes())
        without = pickle.dumps(said | {"entries": []}, protocol=2)
        groups = table(parse(without, path.name), "collective_group")
        aligned = dict(groups.select("pg_id", "pg_name").iter_rows())
        for e in said["entries"]:
            assert aligned[e["pg_id"]] == e["process_group"][0]


@pytest.mark.parametrize(
    ("folder", "truth"), [("gpu_error_1st", [12, 14]), ("lock_gil_1st", [9, 14])]
)
def test_the_ranks_behind_are_the_ones_that_were_broken(folder: str, truth: list[int]) -> None:
    """`fault_injection.log` names them. Behind in two groups or more, pipeline groups left out."""
    dumps = [path for path in DUMPS if path.parent.name == folder]
    said = (dumps[0].parent / "fault_injection.log").read_text()
    assert f"Fault ranks: {truth}" in said
    catalog = load_catalog()
    groups = [table(parse(p.read_bytes(), p.name), "collective_group") for p in dumps]
    rows = complete(catalog.tables["collective_group"], pl.concat(groups).drop("line_no"))
    model = catalog.models["collective_group_lag"]
    nothing = {name: catalog.tables[name].empty() for name in model.inputs}
    lag = compute(catalog, model, nothing | {"collective_group": rows}, {})
    assert set(lag["coverage_ratio"]) == {1.0}
    behind = lag.filter(
        (pl.col("enqueued_lag_count") > 0) | (pl.col("completed_lag_count") > 0),
        ~pl.col("pg_desc").str.contains("PIPELINE_MODEL_PARALLEL"),
    )
    counts = behind.group_by("rank").agg(pl.len().alias("groups"))
    assert sorted(counts.filter(pl.col("groups") >= 2)["rank"]) == truth


def test_json_and_pickle_say_the_same() -> None:
    said = dump(entry(), entry(record_id=8, time_discovered_completed_ns=None, state="started"))
    as_json = json.loads(json.dumps(said))
    as_json["entries"][1]["time_discovered_completed_ns"] = 0
    for last in as_json["pg_status"].values():
        last.update({key: str(value) for key, value in last.items()})
    one, other = parse(pickle.dumps(said, protocol=2)), parse(json.dumps(as_json).encode())
    assert one.rejects.is_empty()
    assert other.rejects.is_empty()
    for name in ("collective", "collective_group"):
        assert table(one, name).equals(table(other, name))
    assert table(one, "collective")["completed_ts"].to_list()[1] is None


# --- any bytes


def accounted(parsed: Parsed) -> None:
    assert parsed.rejects.height + sum(table(parsed, name).height for name in parsed.tables) > 0


@given(content=st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_reject(content: bytes) -> None:
    assert parse(content).rejects.height >= 1


@given(data=st.data(), path=st.sampled_from(DUMPS))
@settings(max_examples=150, deadline=None)
def test_a_damaged_dump_never_raises(data: st.DataObject, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    accounted(parse(bytes(content), path.name))


@pytest.mark.parametrize("path", DUMPS[:4], ids=lambda p: p.name)
def test_a_dump_cut_anywhere_is_one_reject(path: Path) -> None:
    content = path.read_bytes()
    for end in range(0, len(content), 97):
        parsed = parse(content[:end], path.name)
        assert len(parsed.rejects) == 1
        assert not parsed.tables


FIELDS = list(entry())
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()),
    st.sampled_from(["\ud800", "send 0->1", "nccl:recv 3<-99", -1, 0, 1 << 63, [["x"]], {"a": 1}]),
)  # fmt: skip


@given(fields=st.dictionaries(st.sampled_from([*FIELDS, "duration_ms", "seq_id"]), ODD))
@settings(max_examples=300, deadline=None)
def test_any_entry_is_a_row_or_a_reject(fields: dict[str, Any]) -> None:
    for content in (
        json.dumps(dump(entry(), entry(**fields))).encode(),
        pickle.dumps(dump(entry(), entry(**fields)), 4),
    ):
        parsed = parse(content)
        if "collective" in parsed.tables:
            assert table(parsed, "collective").height + len(parsed.rejects) == 2
        else:
            assert len(parsed.rejects) == 1


@given(top=st.dictionaries(st.sampled_from(["version", "entries", "pg_config", "pg_status"]), ODD))
@settings(max_examples=200, deadline=None)
def test_any_top_level_never_raises(top: dict[str, Any]) -> None:
    parse(json.dumps(dump(entry(), **top)).encode())
    parse(pickle.dumps(dump(entry(), **top), 2))


# --- versions, ranks, groups


def test_versions_are_pairs_of_numbers() -> None:
    for version in ("1.1", "2.2", "2.9", "2.10", "2.4.1"):
        rows = table(parse(pickle.dumps(dump(entry(), version=version), 2)), "collective")
        assert rows["format_version"].to_list() == [version]
    for version in ("3.0", "10.1", "0.9"):
        (reason,) = reasons(parse(pickle.dumps(dump(entry(), version=version), 2)))
        assert f"version {version} of the format is not known" in reason
    odds: list[Any] = ["two", "", None, "2.x", [2, 9]]
    for odd in odds:
        (reason,) = reasons(parse(pickle.dumps(dump(entry(), version=odd), 2)))
        assert "is not of the form 2.9" in reason


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("_dump_3", 3),
        ("nccl_trace_rank_3", 3),
        ("host12-trace_rank_03", 3),
        ("nccl_trace_rank_3.json", 3),
        ("trace_3.pickle", 3),
        ("3", 3),
    ],
)
def test_the_rank_is_the_number_that_ends_the_name(name: str, rank: int) -> None:
    rows = table(parse(pickle.dumps(dump(entry()), 2), name), "collective")
    assert rows["rank"].to_list() == [rank]


def test_a_rank_is_never_guessed() -> None:
    content = pickle.dumps(dump(entry()), 2)
    (reason,) = reasons(parse(content, "rank3_dump"))
    assert reason.endswith("state it with --set rank=N")
    assert parse(content, "rank3_dump", rank="2").rejects.is_empty()
    assert "is not a whole number" in reasons(parse(content, rank="two"))[0]
    assert "rank 9 is in none" in reasons(parse(content, "_dump_9"))[0]


def test_a_state_without_a_name_is_a_reject() -> None:
    status = {"4": {"last_enqueued_collective": 1}, "5": {"last_enqueued_collective": 2}}
    parsed = parse(pickle.dumps(dump(entry(pg_id=4), pg_status=status), 2))
    assert reasons(parsed) == ["pg_status of group 5: neither an entry nor pg_config names it"]


def test_it_knows_its_own() -> None:
    for path in DUMPS:
        assert flight_recorder.sniff(path.read_bytes()[:65536], path.name)
    for protocol in range(6):
        assert flight_recorder.sniff(pickle.dumps(dump(), protocol), "x")
    assert flight_recorder.sniff(json.dumps(dump(entry())).encode(), "x")
    assert not flight_recorder.sniff(b'{"a": 1}', "x")
    assert not flight_recorder.sniff(b"# HELP DCGM_FI_DEV_SM_CLOCK", "x")
