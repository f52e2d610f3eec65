"""JSON that NCCL's monitor answers with: snapshots and monitor events, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._nccl_ras_rows import BadAnswerError, Rows, Snapshot, function_name


def read_answer(answer: Any, line_no: int, rows: Rows) -> None:  # noqa: ANN401 - any JSON value
    """Rows of one JSON object. Raises BadAnswerError for what is neither of the two kinds."""
    if not isinstance(answer, dict):
        raise BadAnswerError("a JSON value that is no object")
    if "communicators" in answer:
        _read_snapshot(answer, line_no, rows)
    elif "event" in answer:
        _read_event(answer, line_no, rows)
    else:
        raise BadAnswerError("a JSON object that is neither a snapshot nor an event")


def _read_snapshot(answer: Mapping[str, Any], line_no: int, rows: Rows) -> None:
    ras = _object(answer, "ras")
    snapshot = Snapshot(
        ts=rows.local_time(_text(answer, "timestamp") or ""),
        line_no=line_no,
        comm_lib_version=_text(answer, "nccl_version"),
        collect_s=_number(ras, "collection_time_sec"),
        timeout_count=_whole(ras, "timeouts_count"),
    )
    # A snapshot is taken as a whole or not at all: half of the ranks would look like the rest died.
    taken = Rows(rows.zone, rows.who)
    for comm in _list(answer, "communicators"):
        comm_id = _hash(comm)
        counts = {
            "comm_id": comm_id,
            "comm_secondary_id": _text(comm, "secondary_hash"),
            "n_ranks": _whole(comm, "size"),
            "answered_rank_count": _whole(comm, "ranks_count"),
            "missing_rank_count": _whole(comm, "missing_ranks_count"),
        }
        for missing, ranks in ((False, _list(comm, "ranks")), (True, _list(comm, "missing_ranks"))):
            for rank in ranks:
                taken.add_rank(snapshot, {**counts, **_rank(rank, missing=missing)})
                taken.add_counts(snapshot, counts, _identity(rank), _counts(rank))
    rows.extend(taken)


def _hash(comm: Mapping[str, Any]) -> str:
    text = _text(comm, "hash") or ""
    try:
        return f"0x{int(text, 16):016x}"
    except ValueError:
        raise BadAnswerError(
            f"hash {text[:40]!r} of a communicator is no hexadecimal number"
        ) from None


def _identity(rank: Mapping[str, Any]) -> dict[str, Any]:
    number = _whole(rank, "rank")
    if number is None:
        raise BadAnswerError("a rank without its number")
    host, pid = _text(rank, "host"), _whole(rank, "pid", least=-1)
    return {
        "comm_rank": number,
        "node": None if host in {None, "", "unknown"} else host,
        "pid": None if pid == -1 else pid,
        "cuda_device": _whole(rank, "cuda_dev"),
        "nvml_device": _whole(rank, "nvml_dev"),
    }


def _rank(rank: Mapping[str, Any], *, missing: bool) -> dict[str, Any]:
    status = _object(rank, "status")
    native = _whole(status, "init_state")
    flags = {
        name: _flag(status, key)
        for name, key in (
            ("is_unresponsive", "unresponsive"), ("is_dead", "considered_dead"),
            ("finalize_called", "finalize_called"), ("destroy_called", "destroy_flag"),
            ("abort_called", "abort_flag"),
        )
    }  # fmt: skip
    return {
        **_identity(rank), **flags,
        "is_missing": missing,
        "native_init_state": native,
        "async_error": _whole(status, "async_error"),
        "init_state": _state(flags, native, missing=missing),
    }  # fmt: skip


def _state(flags: Mapping[str, bool | None], native: int | None, *, missing: bool) -> str | None:
    """The word the text form has for it (client_support.cc decides in this order)."""
    if missing:
        return "no_comm" if flags["is_unresponsive"] is False else None
    if flags["abort_called"]:
        return "abort"
    if flags["finalize_called"] or flags["destroy_called"]:
        return "finalize"
    if native is None:
        return None
    return "running" if native == 0 else "init"


def _counts(rank: Mapping[str, Any]) -> dict[str, int]:
    counts = _object(rank, "collective_counts")
    found = {function_name(name): _whole(counts, name) for name in counts}
    return {name: count for name, count in found.items() if count is not None}


def _read_event(answer: Mapping[str, Any], line_no: int, rows: Rows) -> None:
    peer = _object(answer, "peer")
    devices = [n for n in _list(peer, "cuda_devs") if isinstance(n, int)]
    nvml = [n for n in _list(peer, "nvml_devs") if isinstance(n, int)]
    words = [_text(answer, "group"), _text(answer, "event"), _text(answer, "details")]
    rows.add_event(
        line_no,
        _text(answer, "event") or "unknown",
        ts=rows.local_time(_text(answer, "timestamp") or ""),
        node=_text(peer, "host") or _text(peer, "addr"),
        pid=_whole(peer, "pid"),
        cuda_device=devices[0] if len(devices) == 1 else None,
        nvml_device=nvml[0] if len(nvml) == 1 else None,
        message=" ".join(word for word in words if word),
    )


def _object(record: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 - checked here
    if not isinstance(record, dict):
        raise BadAnswerError("a rank that is no object")
    value = record.get(key)
    if value is not None and not isinstance(value, dict):
        raise BadAnswerError(f"{key} is no object")
    return value or {}


def _list(record: Any, key: str) -> list[Any]:  # noqa: ANN401 - checked here
    if not isinstance(record, dict):
        raise BadAnswerError("a communicator or rank that is no object")
    value = record.get(key)
    if value is not None and not isinstance(value, list):
        raise BadAnswerError(f"{key} is no list")
    return value or []


def _text(record: Any, key: str) -> str | None:  # noqa: ANN401 - checked here
    value = record.get(key) if isinstance(record, dict) else None
    if value is not None and not (isinstance(value, str) and value.isprintable()):
        raise BadAnswerError(f"{key} is no text")
    return value


def _whole(record: Any, key: str, least: int = 0) -> int | None:  # noqa: ANN401 - checked here
    value = record.get(key) if isinstance(record, dict) else None
    largest = 2**63 - 1 if key == "pid" or key[:1].isupper() else 2**31 - 1
    if value is not None and not (type(value) is int and least <= value <= largest):
        raise BadAnswerError(f"{key} is no whole number in range")
    return value


def _number(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None


def _flag(record: Mapping[str, Any], key: str) -> bool | None:
    value = record.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadAnswerError(f"{key} is neither true nor false")
    return value
