"""The application: read-only endpoints over one store, and the page."""

from __future__ import annotations

import importlib.resources
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi_offline import FastAPIOffline
from starlette.staticfiles import StaticFiles

import fleetmark
from fleetmark.catalog import Catalog, load_catalog
from fleetmark.query.pool import Limits, Pool
from fleetmark.settings import Settings

from . import findings, health, problems, query, tables
from .lake import Lake

STATIC = importlib.resources.files(__package__) / "static"
# The documentation's own pages carry inline scripts; everything else may run none.
_DOCS = ("/docs", "/static-offline-docs")
_MAX_BODY_BYTES = 1 << 20
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(
    settings: Settings,
    *,
    catalog: Catalog | None = None,
    limits: Limits | None = None,
    workers: int = 2,
) -> FastAPI:
    """The API over the store of `settings`. The store is opened at the first request that needs it."""
    definitions = catalog or load_catalog()
    lake = Lake(settings.store, definitions, settings.memory_mb)
    root = (settings.store / "data").resolve()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with Pool(root, size=workers, limits=limits) as pool:
            app.state.pool = pool
            yield
        lake.close()

    app: FastAPI = FastAPIOffline(
        title="Fleetmark",
        summary="What a GPU fleet's own logs say about useful work, drag and theft. Read-only.",
        version=fleetmark.__version__,
        lifespan=lifespan,
        redoc_url=None,  # its page loads fonts from outside
    )
    app.state.lake = lake
    app.state.contents = tables.Contents(lake)
    problems.install(app)
    for module in (health, tables, findings, query):
        app.include_router(module.router)
    app.middleware("http")(_guard)
    app.mount("/static", StaticFiles(directory=str(STATIC)), name="static")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(str(STATIC / "index.html"))

    return app


async def _guard(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Refuse bodies that no query needs, and tell browsers to run nothing from logs."""
    size = request.headers.get("content-length", "0")
    chunked = "transfer-encoding" in request.headers
    if chunked or not size.isdigit() or int(size) > _MAX_BODY_BYTES:
        return problems.problem(
            413, "The request is too large", f"a body has at most {_MAX_BODY_BYTES:,} bytes"
        )
    response = await proceed(request)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    if not request.url.path.startswith(_DOCS):
        response.headers["Content-Security-Policy"] = _PAGE_POLICY
    return response
