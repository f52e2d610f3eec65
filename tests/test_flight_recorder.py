"""Flight Recorder: hostile pickles do nothing, and no bytes make the source raise."""

from __future__ import annotations

import json
import os
import pickle
import re
import struct
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.pipeline.load import options_of
from fleetmark.source import Context, Parsed

pickle_data = import_module("fleetmark.ingest.pickle_data")
flight_recorder = import_module("fleetmark.ingest.flight_recorder").flight_recorder
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


# --- hostile pickles


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def payloads(folder: str) -> dict[str, bytes]:
    """Programs that make `folder` when Python's own unpickler runs them, one per way to act."""
    call = b"(" + _text(folder) + b"t"

    class Reduce:
        def __reduce__(self) -> Any:
            return os.mkdir, (folder,)

    made = {f"reduce, protocol {n}": pickle.dumps(Reduce(), protocol=n) for n in range(6)}
    nested = dump(entry(frames=[{"name": Reduce()}]))
    made |= {f"inside an entry, protocol {n}": pickle.dumps(nested, protocol=n) for n in range(6)}
    return made | {
        "GLOBAL and REDUCE": b"cos\nmkdir\n" + call + b"R.",
        "STACK_GLOBAL": b"\x80\x04" + _text("os") + _text("mkdir") + b"\x93" + call + b"R.",
        "INST": b"(" + _text(folder) + b"ios\nmkdir\n.",
        "OBJ": b"(cos\nmkdir\n" + _text(folder) + b"o.",
        "call, then plain data": b"cos\nmkdir\n" + call + b"R0" + pickle.dumps(dump(), 2),
        "call after a dump": pickle.dumps(dump(entry()), 2)[:-1] + b"cos\nmkdir\n" + call + b"R0.",
    }


INERT = {
    "NEWOBJ": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    "NEWOBJ_EX": b"\x80\x04ccollections\nOrderedDict\n)}\x92.",
    "BUILD": b"}}b.",
    "EXT1": b"\x80\x02\x82\x01.",
    "EXT2": b"\x80\x02\x83\x01\x00.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "PERSID": b"Psomething\n.",
    "BINPERSID": b"Nq\x00Q.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "READONLY_BUFFER": b"\x80\x05N\x98.",
    "BYTEARRAY8": b"\x80\x05\x96" + struct.pack("<Q", 1) + b"a.",
    "BINBYTES": b"\x80\x03B" + struct.pack("<I", 1) + b"a.",
    "STRING with an odd escape": b"S'\\d'\n.",
    "EMPTY_SET": b"\x80\x04\x8f.",
    "DUP": b"N2\x86.",
    "no instruction": b"\xff\xff\xff.",
}


@pytest.mark.parametrize("name", list(payloads("")))
def test_a_payload_that_works_elsewhere_does_nothing_here(name: str, tmp_path: Path) -> None:
    target = tmp_path / "made by the pickle"
    content = payloads(str(target))[name]
    parsed = parse(content)
    assert not target.exists()
    assert not parsed.tables
    assert re.search(r"at byte \d+: instruction \w+ is not one of plain data", reasons(parsed)[0])
    pickle.loads(content)  # noqa: S301 - proof that this payload is live: it only makes the folder
    assert target.exists()


@pytest.mark.parametrize("name", list(INERT))
def test_an_instruction_beyond_plain_data_is_named(name: str) -> None:
    reason = reasons(parse(INERT[name]))[0]
    if name == "no instruction":
        assert "is no pickle instruction" in reason
    else:
        assert re.search(r"instruction \w+ is not one of plain data; refused", reason)


def test_only_instructions_of_plain_data_exist() -> None:
    """Against a later edit: none of the active instructions may get an action."""
    active = {
        "GLOBAL", "STACK_GLOBAL", "INST", "REDUCE", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD", "PERSID",
        "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER",
    }  # fmt: skip
    assert not active & set(pickle_data._ACTIONS)


LAUGHS = b"](K\x00e" + b"q\x00" + b"".join(
    b"](" + b"h" + bytes([n]) + (b"h" + bytes([n])) * 9 + b"eq" + bytes([n + 1]) for n in range(12)
)  # fmt: skip
BOMBS = {
    "shared lists that expand to 10**12": b"(" + LAUGHS + b"l.",
    "a list that contains itself": b"]q\x00h\x00a.",
    "a dictionary that contains itself": b"}q\x00" + _text("a") + b"h\x00s.",
    "deep nesting": b"]" * 5000 + b"a" * 4999 + b".",
    "a text of 4 GiB": b"X\xff\xff\xff\xff" + b"a.",
    "a text of 2**63 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b"a.",
    "a text of 2**40 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"a.",
    "a number of 2 GiB": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
    "a number of 10,000 digits": b"I" + b"9" * 10_000 + b"\n.",
    "colliding keys": b"}(" + b"K\x01K\x02" + b"u.",
    "tuples as keys": b"})N\x73.",
    "a key without value": b"}(" + _text("a") + b"u.",
    "recall of nothing": b"h\x07.",
    "an item for a text": _text("a") + b"Na.",
    "a mark never opened": b"t.",
    "nothing on the stack": b".",
    "two values": b"NN.",
    "an open mark": b"N(.",
    "bytes after the end": b"}.}.",
    "text that is no text": b"X\x01\x00\x00\x00\xff.",
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_is_refused(name: str) -> None:
    with pytest.raises(pickle_data.UnsafePickleError):
        load_plain_data(BOMBS[name])
    parsed = parse(BOMBS[name])
    assert reasons(parsed)[0].startswith("not read: the file ")
    assert parsed.rejects["line_no"].to_list() == [0]


def test_a_huge_memo_index_takes_no_memory() -> None:
    """CPython's unpickler would make an array of 2 billion places."""
    assert load_plain_data(b"Nr\xff\xff\xff\x7f.") is None


def test_too_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_data, "MAX_OPCODES", 100)
    with pytest.raises(pickle_data.UnsafePickleError, match="more than 100 instructions"):
        load_plain_data(b"]" + b"Na" * 60 + b".")


def test_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_data, "MAX_BYTES", 10)
    with pytest.raises(pickle_data.UnsafePickleError, match="more than the limit of 10"):
        load_plain_data(b"]" + b"Na" * 60 + b".")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=20,
)


@given(value=PLAIN, protocol=st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_plain_data_of_every_protocol_is_read(value: Any, protocol: int) -> None:
    assert load_plain_data(pickle.dumps(value, protocol=protocol)) == value


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
