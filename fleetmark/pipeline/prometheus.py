"""A Prometheus server (or what speaks its API) as seen by `fleetmark pull`.

Discovery goes through prometheus-api-client; raw samples come by remote read (`/api/v1/read`), which
hands out what is stored, with its own times. `query_range` is never used: it resamples to a grid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Self

import pyarrow as pa
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util import Retry

from fleetmark.errors import InputError, ServiceError, ServiceUnreachableError
from fleetmark.pipeline.address import service_address

TIMEOUT_S = 60
RETRIES = 4
_BUSY = (429, 500, 502, 503, 504)
BLOCK_BYTES = 1 << 20
_OPERATORS = {"=": 0, "!=": 1, "=~": 2, "!~": 3}
_SELECTOR = re.compile(r"\s*(?P<name>[a-zA-Z_:][\w:]*)?\s*(?:\{(?P<matchers>.*)\})?\s*", re.DOTALL)
_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*(?:,|$)')
_TOO_MANY = ("exceeded sample limit", "too many samples", "response size")


class AnswerTooLargeError(Exception):
    """The answer is larger than allowed: ask for a shorter time."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a selector; `operator` is one of =, !=, =~, !~."""

    label: str
    operator: str
    value: str


def matchers_of(selector: str) -> list[Matcher]:
    """Read a series selector: `name{label="value",...}`. Raises InputError."""
    shape = _SELECTOR.fullmatch(selector)
    found: list[Matcher] = []
    rest = ""
    if shape:
        if shape["name"]:
            found.append(Matcher("__name__", "=", shape["name"]))
        rest = (shape["matchers"] or "").strip()
    while rest and (part := _MATCHER.match(rest)):
        try:
            found.append(Matcher(part[1], part[2], json.loads(part[3])))
        except json.JSONDecodeError as error:
            raise InputError(f"selector {selector}: {part[3]} is no string: {error}") from None
        rest = rest[part.end() :].strip()
    if not shape or rest or not found:
        raise InputError(
            f'selector {selector!r} is not one: write NAME, {{label="value"}} or {{label=~"regex"}}'
        )
    return found


def varint(value: int) -> bytes:
    """A number as Protocol Buffers write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def sized(number: int, content: bytes) -> bytes:
    """A field of Protocol Buffers that says how long it is."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def read_request(matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> bytes:
    """prompb.ReadRequest (prompb/remote.proto) of one query in a snappy block; both ends count."""
    query = b"\x08" + varint(start_ms) + b"\x10" + varint(end_ms)
    for matcher in matchers:
        kind = _OPERATORS[matcher.operator]
        parts = sized(2, matcher.label.encode()) + sized(3, matcher.value.encode())
        query += sized(3, (b"\x08" + varint(kind) if kind else b"") + parts)
    return bytes(pa.Codec("snappy").compress(sized(1, query), asbytes=True))


def epoch_ms(ts: datetime) -> int:
    """A UTC time without zone as milliseconds since 1970."""
    return round(ts.replace(tzinfo=UTC).timestamp() * 1000)


class Prometheus:
    """One server. `url` is its address, up to what stands before `/api/v1`.

    User and password come from ~/.netrc, certificate authorities from REQUESTS_CA_BUNDLE, proxies from
    the environment (all by requests); `headers` hold a token or a tenant.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.url = service_address(url, "a Prometheus", "http://HOST:9090")
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._session = requests.Session()
        retry = Retry(
            total=RETRIES, backoff_factor=0.5, status_forcelist=_BUSY, allowed_methods=None,
            raise_on_status=False,
        )  # fmt: skip
        self._client = PrometheusConnect(
            self.url, headers=self._headers, retry=retry, session=self._session, timeout=timeout_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def metric_names(self, selector: str, start: datetime, end: datetime) -> list[str]:
        """Names of the metrics that the selector finds in that time.

        Raises ServiceError, and ServiceUnreachableError when trying again may help.
        """
        span = {"match[]": selector, "start": epoch_ms(start) / 1000, "end": epoch_ms(end) / 1000}
        try:
            found = self._client.get_label_values("__name__", params=span)
        except PrometheusApiClientException as error:
            status = re.search(r"HTTP Status Code (\d+)", str(error))
            raise self._refused(int(status[1]) if status else 0, str(error)) from None
        except (KeyError, TypeError, requests.exceptions.JSONDecodeError):
            raise ServiceError(
                f"{self.url} answers, but not as a Prometheus does: check the address"
            ) from None
        except requests.RequestException as error:
            raise self._unreachable(error) from None
        return [str(name) for name in found]

    def read(
        self, matchers: Sequence[Matcher], start: datetime, end: datetime, limit_bytes: int
    ) -> bytes:
        """The remote-read answer with the samples of [start, end), as sent.

        Raises AnswerTooLargeError when it would unpack to more than `limit_bytes`, or when the
        server says so; ServiceError, and ServiceUnreachableError when trying again may help.
        """
        headers = {
            **self._headers,
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Read-Version": "0.1.0",
        }
        try:
            with self._session.post(
                f"{self.url}/api/v1/read",
                data=read_request(matchers, epoch_ms(start), epoch_ms(end) - 1),
                headers=headers, timeout=self._timeout_s, stream=True,
            ) as response:  # fmt: skip
                if response.status_code != HTTPStatus.OK:
                    if any(sign in response.text for sign in _TOO_MANY):
                        raise AnswerTooLargeError(response.text.strip())
                    raise self._refused(response.status_code, response.text)
                return _within(response, limit_bytes)
        except requests.RequestException as error:
            raise self._unreachable(error) from None

    def _refused(self, status: int, text: str) -> ServiceError:
        said = " ".join(text.split())[:200]
        if status in (401, 403):
            return ServiceError(
                f"{self.url} wants a login (HTTP {status}): give --token-file, or user and "
                "password in ~/.netrc"
            )
        if status in (404, 405):
            return ServiceError(
                f"{self.url} offers no such API (HTTP {status}): check the address, and that "
                "remote read is switched on"
            )
        if status in _BUSY:
            return ServiceUnreachableError(f"{self.url} cannot answer (HTTP {status}): {said}")
        return ServiceError(f"{self.url} refuses the request (HTTP {status}): {said}")

    def _unreachable(self, error: requests.RequestException) -> ServiceUnreachableError:
        return ServiceUnreachableError(f"{self.url} cannot be reached: {error}")


def _within(response: requests.Response, limit_bytes: int) -> bytes:
    """The body, unless it or what its snappy block unpacks to is larger."""
    body = bytearray()
    for part in response.iter_content(BLOCK_BYTES):
        body += part
        if max(len(body), unpacked_size(body)) > limit_bytes:
            raise AnswerTooLargeError
    return bytes(body)


def unpacked_size(body: bytes | bytearray) -> int:
    """What the varint at the head of a snappy block states."""
    size = 0
    for place, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return size
