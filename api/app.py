"""The application: read-only endpoints over one store, and the page."""

from __future__ import annotations

import importlib.resources
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi_offline import FastAPIOffline
from starlette.staticfiles import StaticFiles

import fleetmark
from fleetmark.access.gate import Gate
from fleetmark.access.rules import rules_of
from fleetmark.catalog import Catalog, load_catalog
from fleetmark.evidence import Ledger
from fleetmark.query.pool import Pool
from fleetmark.query.process import Limits
from fleetmark.settings import Settings

from . import answers, contract, findings, health, metrics, problems, query, rows, tables
from .admission import Admission
from .lake import Lake

STATIC = importlib.resources.files(__package__) / "static"


def create_app(
    settings: Settings,
    *,
    catalog: Catalog | None = None,
    limits: Limits | None = None,
    workers: int = 2,
) -> FastAPI:
    """The API over the store of `settings`. The store is opened at the first request that needs it.

    Raises SettingsError for a section [auth] that is wrong.
    """
    definitions = catalog or load_catalog()
    lake = Lake(settings.store, definitions, settings.memory_mb, settings.lake)
    evidence = _Evidence(settings)
    root = settings.lake.folder(settings.store)
    if settings.lake.remote:
        root.mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with Pool(root, size=workers, limits=limits) as pool:
            app.state.pool = pool
            app.state.waiting = answers.waiting()
            yield
        lake.close()
        evidence.close()

    app: FastAPI = FastAPIOffline(
        title="Fleetmark",
        summary="What a GPU fleet's own logs say about useful work, drag and theft. Read-only.",
        version=fleetmark.__version__,
        lifespan=lifespan,
        redoc_url=None,  # its page loads fonts from outside
    )
    app.state.lake = lake
    app.state.contents = tables.Contents(lake)
    app.state.metrics = metrics.Page(lake)
    app.state.kept = answers.Kept()
    problems.install(app)
    for module in (health, metrics, tables, rows, findings, query):
        app.include_router(module.router)
    contract.install(app, definitions)
    app.add_middleware(Admission, gate=Gate(rules_of(settings), _now), ledger=evidence.ledger)
    app.mount("/static", StaticFiles(directory=str(STATIC)), name="static")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(str(STATIC / "index.html"))

    return app


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class _Evidence:
    """The store's ledger, opened when there is something to write down."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()

    def ledger(self) -> Ledger:
        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger.of(self._settings, _now)
            return self._ledger

    def close(self) -> None:
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()
                self._ledger = None
