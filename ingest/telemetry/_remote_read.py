"""Prometheus' remote-read answer: prompb.ReadResponse in a snappy block, as numbers and labels.

    ReadResponse.results = 1  QueryResult.timeseries = 1
    TimeSeries: labels = 1 (name = 1, value = 2), samples = 2 (value = 1 double, timestamp = 2 ms)

(prometheus/prometheus prompb/remote.proto and types.proto.) Series are walked in Python: 30,000 a
second. Their samples are decoded together with NumPy, 20 million a second: a sample takes 18 bytes, 9
where the value is 0 (which protobuf leaves out), as long as its time lies between 1971 and 2109. A series that
is written otherwise is walked field by field, 300,000 samples a second.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ._exposition import Labels

# An answer is taken in slices of some 20 MiB; one that claims more than this is not unpacked.
MAX_UNPACKED_BYTES = 1 << 30
_HALF = 9
_ZERO_HEAD = 0x100712  # a sample of 7 bytes that begins with its time
_VALUE_HEAD = 0x091012  # a sample of 16 bytes that begins with its value
_TIME_TAG = 0x10
_LABELS, _SAMPLES, _HISTOGRAMS = 1, 2, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class NotAnAnswerError(ValueError):
    """The bytes are no remote-read answer, or a damaged one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Series (labels with `__name__`) and their samples, series after series.

    series, value, time_ms   one entry per sample; series is a position in `labels`
    other_count              points that are no numbers: native histograms
    """

    labels: list[Labels]
    series: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    time_ms: npt.NDArray[np.int64]
    other_count: int


def unpacked_size(head: bytes) -> int:
    """The size that a snappy block states in its first bytes. Raises NotAnAnswerError."""
    try:
        return _varint(head, 0)[0]
    except IndexError:
        raise NotAnAnswerError("is no snappy block") from None


def read_answer(content: bytes) -> Answer:
    """Read an answer as the server sent it. Raises NotAnAnswerError."""
    size = unpacked_size(content)
    if size > MAX_UNPACKED_BYTES:
        raise NotAnAnswerError(f"states {size} bytes unpacked, more than the limit of 1 GiB")
    try:
        data = pa.Codec("snappy").decompress(content, size, asbytes=True)
    except (OSError, ValueError) as error:
        raise NotAnAnswerError(f"is no snappy block or is damaged: {error}") from None
    try:
        return _read(data)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise NotAnAnswerError(f"is no prompb.ReadResponse: {error}") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise NotAnAnswerError("is no prompb.ReadResponse: a number has no end")


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Fields of a message: number, wire type, start and end of the content."""
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind == _VARINT:
            size = _varint(data, at)[1] - at
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise NotAnAnswerError(f"is no prompb.ReadResponse: wire type {kind}")
        if at + size > end:
            raise NotAnAnswerError("is no prompb.ReadResponse: a field is longer than its message")
        yield tag >> 3, kind, at, at + size
        at += size


def _read(data: bytes) -> Answer:
    labels: list[Labels] = []
    blocks: list[tuple[int, int]] = []
    for result, kind, start, end in _fields(data, 0, len(data)):
        if (result, kind) != (1, _BYTES):
            raise NotAnAnswerError(f"is no prompb.ReadResponse: field {result}")
        for number, _, begins, ends in _fields(data, start, end):
            if number == 1:
                behind = _behind_labels(data, begins, ends)
                labels.append(_labels(data[begins:behind]))
                blocks.append((behind, ends))
    return _samples(data, labels, blocks)


def _behind_labels(data: bytes, at: int, end: int) -> int:
    """Where the labels at the head of a series end."""
    while at < end and data[at] == (_LABELS << 3 | _BYTES):
        size, at = _varint(data, at + 1)
        at += size
    if at > end:
        raise NotAnAnswerError("is no prompb.ReadResponse: a label is longer than its series")
    return at


@lru_cache(maxsize=1 << 16)
def _labels(region: bytes) -> Labels:
    found = []
    for _, _, start, end in _fields(region, 0, len(region)):
        pair = {number: region[a:b].decode() for number, _, a, b in _fields(region, start, end)}
        found.append((pair.get(1, ""), pair.get(2, "")))
    return tuple(found)


def _samples(data: bytes, labels: list[Labels], blocks: Sequence[tuple[int, int]]) -> Answer:
    regular = np.array([(end - start) % _HALF == 0 for start, end in blocks], dtype=bool)
    halves = np.array([(end - start) // _HALF for start, end in blocks], dtype=np.int64)
    halves[~regular] = 0
    joined = b"".join(data[s:e] for (s, e), fits in zip(blocks, regular, strict=True) if fits)
    rows = np.frombuffer(joined, dtype=np.uint8).reshape(-1, _HALF)
    owner = np.repeat(np.arange(len(blocks)), halves)
    parts = []
    series, value, time_ms, wrong = _halves(rows, owner)
    regular[wrong] = False
    good = regular[series]
    parts.append((series[good], value[good], time_ms[good]))
    others = 0
    for number in np.flatnonzero(~regular).tolist():
        walked, histograms = _walk(data, *blocks[number])
        others += histograms
        values, times = zip(*walked, strict=True) if walked else ((), ())
        parts.append((np.full(len(walked), number), np.array(values, dtype=np.float64),
                      np.array(times, dtype=np.int64)))  # fmt: skip
    series, value, time_ms = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(parts) > 1:
        order = np.argsort(series, kind="stable")
        series, value, time_ms = series[order], value[order], time_ms[order]
    return Answer(labels, series, value, time_ms, others)


def _halves(
    rows: npt.NDArray[np.uint8], owner: npt.NDArray[np.int64]
) -> tuple[
    npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]
]:
    """Series, value and time of each sample written in 9 or 18 bytes; and the series (`owner` of a
    row) that hold anything else.

    A row is a whole sample, or the first or second half of one. Which, follows from the row before,
    unless a second half looks like a first: then its series counts as other.
    """
    head = rows[:, 0] | rows[:, 1].astype(np.uint32) << 8 | rows[:, 2].astype(np.uint32) << 16
    is_zero, is_first = head == _ZERO_HEAD, head == _VALUE_HEAD
    is_second = np.zeros(len(rows), dtype=bool)
    is_second[1:] = is_first[:-1]
    crosses = np.zeros(len(rows), dtype=bool)
    crosses[1:] = owner[1:] != owner[:-1]
    ends_series = np.append(crosses[1:], True)[: len(rows)]
    ends_time = (rows[:, 3:8] >= 0x80).all(axis=1) & (rows[:, 8] < 0x80) & (rows[:, 8] > 0)
    fits = np.where(
        is_second,
        ~is_first & ~crosses & (rows[:, 2] == _TIME_TAG) & ends_time,
        (is_zero & ends_time) | (is_first & ~ends_series),
    )
    wrong = np.unique(owner[~fits])
    time_ms = np.zeros(len(rows), dtype=np.int64)
    for place in range(6):
        time_ms |= (rows[:, 3 + place] & 0x7F).astype(np.int64) << (7 * place)
    ends = np.flatnonzero(is_second | (is_zero & ~is_second))
    eight = np.zeros((len(ends), 8), dtype=np.uint8)
    with_value = is_second[ends]
    second = ends[with_value]
    eight[with_value, :6] = rows[second - 1, 3:9]
    eight[with_value, 6:] = rows[second, :2]
    return owner[ends], eight.view("<f8")[:, 0], time_ms[ends], wrong


def _walk(data: bytes, at: int, end: int) -> tuple[list[tuple[float, int]], int]:
    """Samples (value, time in ms) of one series field by field; and how many points are none."""
    samples: list[tuple[float, int]] = []
    others = 0
    for number, _, start, stop in _fields(data, at, end):
        if number == _SAMPLES:
            value, time_ms = 0.0, 0
            for field, _, a, b in _fields(data, start, stop):
                if field == 1:
                    (value,) = struct.unpack("<d", data[a:b])
                elif field == 2:
                    time_ms = _varint(data, a)[0]
            samples.append((value, time_ms - (1 << 64) if time_ms >= 1 << 63 else time_ms))
        elif number == _LABELS:
            raise NotAnAnswerError("is no prompb.ReadResponse: labels stand behind samples")
        elif number == _HISTOGRAMS:
            others += 1
    return samples, others
