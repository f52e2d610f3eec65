"""The receiver: takes webhooks into the spool, and tells how everything stands.

A body is answered with 202 once it lies on disk, and read from there by the part `inputs`. Nothing is
asked of the lake here, so that a slow store never makes a sender wait.
"""

from __future__ import annotations

import hmac
import os
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from fleetmark.errors import SettingsError
from fleetmark.live import metrics, status
from fleetmark.live.inputs import Run, Webhook
from fleetmark.live.tail import SPOOL
from fleetmark.settings import Settings

# A receiver that would fill the disk refuses first; senders keep what they have.
FREE_BYTES = 512 << 20
SPOOLED_FILES = 100_000


def receiver(
    settings: Settings, hooks: list[Webhook], run: Run, clock: Callable[[], datetime]
) -> FastAPI:
    """The ASGI application."""
    root = settings.store
    app = FastAPI(title="Fleetmark receiver", docs_url=None, redoc_url=None, openapi_url=None)
    by_name = {hook.name: hook for hook in hooks}

    @app.post("/hooks/{name}", status_code=202)
    async def hook(name: str, request: Request) -> Response:
        one = by_name.get(name)
        if one is None:
            return _refuse(404, f"no webhook {name}; there are {', '.join(by_name) or 'none'}")
        if not _may(one, request, settings):
            return _refuse(401, "give the token as `Authorization: Bearer …`")
        return await _take(one, request, root / SPOOL / name)

    @app.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.page(root), media_type=metrics.MEDIA_TYPE)

    @app.get("/healthz")
    def alive() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    def ready() -> Response:
        """Ready once every input has been looked at without an error, and computing goes on."""
        late = [
            f"{s.name}: {s.error or s.state}"
            for s in status.load_all(root)
            # What judges rows that are stored already makes nothing late.
            if s.kind != "contracts"
            if s.state in ("starting", "degraded") or _silent(s, run, clock())
        ]
        return PlainTextResponse("\n".join(late or ["ok"]) + "\n", 503 if late else 200)

    return app


async def _take(one: Webhook, request: Request, spool: Path) -> Response:
    """The body into the spool; an empty one is a test of the connection."""
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > one.max_body_bytes:
            return _refuse(413, f"larger than {one.max_body_bytes} bytes")
    if body.strip():
        if problem := _full(spool):
            return _refuse(503, problem)
        _keep(spool, bytes(body))
    return Response(status_code=202)


def _silent(one: status.Status, run: Run, now: datetime) -> bool:
    """No success for much longer than it should take."""
    if not one.last_success:
        return False
    age = now - datetime.fromisoformat(one.last_success)
    return age.total_seconds() > max(600.0, 10 * run.compute_interval_s)


def _may(hook: Webhook, request: Request, settings: Settings) -> bool:
    """Constant time, so that an answer tells nothing of the token. One that cannot be read admits nobody."""
    if hook.token is None:
        return True
    try:
        wanted = f"Bearer {hook.token.read(settings.environment)}"
    except SettingsError:
        return False
    return hmac.compare_digest(request.headers.get("authorization", "").encode(), wanted.encode())


def _refuse(code: int, why: str) -> Response:
    return JSONResponse({"title": why, "status": code}, code, media_type="application/problem+json")


def _full(spool: Path) -> str:
    spool.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(spool).free < FREE_BYTES:
        return "the disk is nearly full: send it again later"
    if sum(1 for _ in os.scandir(spool)) > SPOOLED_FILES:
        return "too much waits to be read: send it again later"
    return ""


def _keep(spool: Path, body: bytes) -> None:
    """On disk, whole, under a name that sorts by time, before the sender is told so."""
    made = spool / f"{uuid4().hex}.new"
    with made.open("wb") as file:
        file.write(body if body.endswith(b"\n") else body + b"\n")
        file.flush()
        os.fsync(file.fileno())
    made.replace(spool / f"{time.time_ns():020}-{made.stem[:8]}.body")
