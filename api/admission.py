"""Every request's way in and out: its size, who sends it, how often, and what it leaves in the evidence.

Open to everybody: `/healthz`, the documentation of the API and the page's static files. All else needs a
known caller (`fleetmark.access.gate`) and is written to the evidence ledger before the answer's last byte is
sent: who, what, status, rows, bytes, milliseconds. An answer that cannot be written down is not given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetmark.access.gate import Gate, Principal, Rates, RefusedError
from fleetmark.errors import FleetmarkError
from fleetmark.evidence import Ledger

from . import problems

# The documentation's own pages carry inline scripts; everything else may run none.
_DOCS = ("/docs", "/static-offline-docs")
_OPEN = ("/healthz", "/openapi.json", "/static/", *_DOCS)
_MAX_BODY_BYTES = 1 << 20
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A client that takes nothing for so long would hold a query worker for as long as the answer may last.
TAKEN_WITHIN_S = 60.0
# Refused strangers that are written down, a minute and address: a flood must not fill the disk.
_STRANGERS_PER_MIN = 60


def principal_of(request: Request) -> Principal:
    """Who sends the request."""
    principal: Principal = request.state.principal
    return principal


def note(request: Request, **facts: object) -> None:
    """Facts about the answer (`sql`, `row_count`, `tables`) for the evidence."""
    request.state.facts.update(facts)


@dataclass
class _Sent:
    """One answer on its way out. Its start is held back until its first bytes are known."""

    scope: Scope
    began: float = field(default_factory=time.monotonic)
    start: Message | None = None
    status: int = 0
    size: int = 0
    written: bool = False


class Admission:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, gate: Gate, ledger: Callable[[], Ledger]) -> None:
        self._app = app
        self._gate = gate
        self._ledger = ledger
        self._strangers = Rates(_STRANGERS_PER_MIN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if _too_large(headers):
            answer = problems.problem(
                413, "The request is too large", f"a body has at most {_MAX_BODY_BYTES:,} bytes"
            )
            await answer(scope, receive, _plain(scope, send))
            return
        if not self._gate.meant(headers.get("host", "")):
            answer = problems.problem(
                421, "Not this server", "without keys it answers to localhost and 127.0.0.1 alone"
            )
            await answer(scope, receive, _plain(scope, send))
            return
        state = scope.setdefault("state", {})
        state["facts"] = {}
        if scope["path"].startswith(_OPEN):
            await self._app(scope, receive, _plain(scope, send))
            return
        try:
            state["principal"] = await run_in_threadpool(
                self._gate.admit, headers.get("authorization")
            )
        except RefusedError as refusal:
            await self._refuse(refusal, scope, receive, send)
        except FleetmarkError as error:
            answer = problems.problem(503, "Callers cannot be judged now", str(error))
            await answer(scope, receive, _plain(scope, send))
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = _Sent(scope)
        out = _plain(scope, send)

        async def forward(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent.start, sent.status = message, message["status"]
                return
            sent.size += len(message.get("body", b""))
            if not message.get("more_body", False):
                try:
                    await run_in_threadpool(self._write, sent)
                except FleetmarkError as error:
                    if sent.start is None:  # half the answer is out: break it off
                        raise
                    sent.written = True
                    answer = problems.problem(503, "No evidence can be kept now", str(error))
                    await answer(scope, receive, out)
                    return
            if sent.start is not None:
                start, sent.start = sent.start, None
                await out(start)
            await out(message)

        try:
            await self._app(scope, receive, forward)
        finally:
            if not sent.written:  # the client left, or the answer broke off
                await run_in_threadpool(self._write, sent, complete=False)

    def _write(self, sent: _Sent, *, complete: bool = True) -> None:
        state: dict[str, Any] = sent.scope["state"]
        body = {
            "who": state["principal"].name,
            "role": state["principal"].role,
            **_asked(sent.scope),
            "status": sent.status,
            "body_bytes": sent.size,
            "elapsed_ms": round((time.monotonic() - sent.began) * 1000, 1),
            "complete": complete,
            **state["facts"],
        }
        self._ledger().append("request", body)
        sent.written = True

    async def _refuse(
        self, refusal: RefusedError, scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer = problems.problem(refusal.status, refusal.title, str(refusal))
        if refusal.status == 401:
            answer.headers["WWW-Authenticate"] = 'Basic realm="fleetmark", Bearer'
        if refusal.retry_s is not None:
            answer.headers["Retry-After"] = str(refusal.retry_s)
        host = (scope.get("client") or ("unknown",))[0]
        if self._strangers.wait_s(host) == 0:
            body = {"from": host, **_asked(scope), "status": refusal.status, "why": str(refusal)}
            await run_in_threadpool(lambda: self._ledger().append("refused", body))
        await answer(scope, receive, _plain(scope, send))


def _asked(scope: Scope) -> dict[str, object]:
    return {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode("latin-1")[:2000],
    }


def _too_large(headers: Headers) -> bool:
    size = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not size.isdigit() or int(size) > _MAX_BODY_BYTES


def _plain(scope: Scope, send: Send) -> Send:
    """`send`, telling browsers to run nothing from logs. Raises TimeoutError when nothing is taken."""

    async def out(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Referrer-Policy"] = "no-referrer"
            if not scope["path"].startswith(_DOCS):
                headers["Content-Security-Policy"] = _PAGE_POLICY
        with anyio.fail_after(TAKEN_WITHIN_S):
            await send(message)

    return out
