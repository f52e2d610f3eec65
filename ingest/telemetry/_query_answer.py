"""Prometheus' query API: answers of /api/v1/query and query_range in JSON, as numbers and labels.

    {"status": "success", "data": {"resultType": "matrix", "result": [
        {"metric": {"__name__": "up", …}, "values": [[1767225600.123, "1"], …]}, …]}}

(prometheus.io/docs/prometheus/latest/querying/api.) A vector has one `value` a series. What speaks the
same API answers alike. 900,000 samples a CPU second, JSON's decoding included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._json_values import part
from ._remote_read import Answer, NotAnAnswerError, read_answer

_MOST_S = 1e11
_POINTS = {"matrix": "values", "vector": "value"}
_DECODER = json.JSONDecoder()


def read_any_answer(content: bytes) -> Answer:
    """An answer of remote read, or one or more of the query API, one behind another. Raises
    NotAnAnswerError.
    """
    if content.lstrip()[:1] != b"{":
        return read_answer(content)
    try:
        return _joined(list(_documents(content.decode())))
    except NotAnAnswerError:
        raise
    except (ValueError, RecursionError, TypeError, OverflowError, LookupError) as error:
        raise NotAnAnswerError(f"is JSON that cannot be read: {error}") from None


def _documents(text: str) -> Iterator[Any]:
    """The JSON values that stand one behind another, as `curl … >> file` leaves them."""
    rest = text.lstrip()
    while rest:
        document, end = _DECODER.raw_decode(rest)
        rest = rest[end:].lstrip()
        yield document


def _joined(documents: list[Any]) -> Answer:
    labels, counts, times, values, others = [], [], [], [], 0
    for document in documents:
        for series in _series(document):
            metric, points = part(series, "metric"), _points(series)
            if not isinstance(metric, dict):
                raise NotAnAnswerError("is an answer whose series have no member metric")
            others += len(series.get("histograms", ())) + ("histogram" in series)
            labels.append(tuple((str(key), str(value)) for key, value in sorted(metric.items())))
            counts.append(len(points))
            times += [point[0] for point in points]
            values += [point[1] for point in points]
    seconds = np.array(times, dtype=np.float64)
    # What is no time lies before all that are kept.
    seconds[~(np.abs(seconds) < _MOST_S)] = -1
    return Answer(
        labels,
        np.repeat(np.arange(len(labels)), np.array(counts, dtype=np.int64)),
        np.array(values, dtype=np.float64),
        np.rint(seconds * 1000).astype(np.int64),
        others,
    )


def _series(document: object) -> list[Any]:
    """The series of one answer. Raises NotAnAnswerError."""
    if part(document, "status") == "error":
        raise NotAnAnswerError(f"is an error of the server: {part(document, 'error')}")
    kind, found = part(document, "data", "resultType"), part(document, "data", "result")
    if kind not in _POINTS or not isinstance(found, list):
        raise NotAnAnswerError(
            f"is JSON with resultType {kind}: ask for series, a matrix or a vector"
        )
    return found


def _points(series: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    values = part(series, "values")
    one = part(series, "value")
    return values if isinstance(values, list) else [one] if isinstance(one, list) else []
