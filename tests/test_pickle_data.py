"""Pickles as plain data: hostile ones do nothing, and plain ones read as Python reads them."""

from __future__ import annotations

import os
import pickle
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pickle_data = import_module("fleetmark.ingest.collectives.pickle_data")
load_plain_data = pickle_data.load_plain_data

PLAIN = pickle.dumps({"version": "2.9", "entries": [{"record_id": 1}]}, 2)
NOT_PLAIN = r"at byte \d+: instruction \w+ is not one of plain data; refused"


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def payloads(folder: str) -> dict[str, bytes]:
    """Programs that make `folder` when Python's own unpickler runs them, one per way to act."""
    call = b"(" + _text(folder) + b"t"

    class Reduce:
        def __reduce__(self) -> Any:
            return os.mkdir, (folder,)

    made = {f"reduce, protocol {n}": pickle.dumps(Reduce(), protocol=n) for n in range(6)}
    nested = {"version": "2.9", "entries": [{"frames": [{"name": Reduce()}]}]}
    made |= {f"inside an entry, protocol {n}": pickle.dumps(nested, protocol=n) for n in range(6)}
    return made | {
        "GLOBAL and REDUCE": b"cos\nmkdir\n" + call + b"R.",
        "STACK_GLOBAL": b"\x80\x04" + _text("os") + _text("mkdir") + b"\x93" + call + b"R.",
        "INST": b"(" + _text(folder) + b"ios\nmkdir\n.",
        "OBJ": b"(cos\nmkdir\n" + _text(folder) + b"o.",
        "call, then plain data": b"cos\nmkdir\n" + call + b"R0" + PLAIN,
        "call after a dump": PLAIN[:-1] + b"cos\nmkdir\n" + call + b"R0.",
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
    with pytest.raises(pickle_data.UnsafePickleError, match=NOT_PLAIN):
        load_plain_data(content)
    assert not target.exists()
    pickle.loads(content)  # noqa: S301 - proof that this payload is live: it only makes the folder
    assert target.exists()


@pytest.mark.parametrize("name", list(INERT))
def test_an_instruction_beyond_plain_data_is_named(name: str) -> None:
    reason = "is no pickle instruction" if name == "no instruction" else NOT_PLAIN
    with pytest.raises(pickle_data.UnsafePickleError, match=reason):
        load_plain_data(INERT[name])


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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=20,
)


@given(value=VALUES, protocol=st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_plain_data_of_every_protocol_is_read(value: Any, protocol: int) -> None:
    assert load_plain_data(pickle.dumps(value, protocol=protocol)) == value
