"""Start the API server. The only place that starts it; the API itself is an ASGI application."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib import import_module

import uvicorn

from fleetmark.access.rules import LOOPBACK, rules_of
from fleetmark.errors import InputError
from fleetmark.settings import Settings


def serve(settings: Settings, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until interrupted. Raises InputError for a busy port, and for wider than loopback unless
    callers must say who they are.
    """
    rules = rules_of(settings)
    if host not in LOOPBACK and not rules.active:
        raise InputError(
            f"--host {host}: without authentication only {', '.join(LOOPBACK)}; "
            "`fleetmark key create NAME --role ROLE` makes the first key"
        )
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise InputError(f"port {port} of {host}: {error.strerror}; --port names another") from None
    app = import_module("fleetmark.api.app").create_app(settings)
    shown = f"[{host}]" if ":" in host else host
    on_ready(f"http://{shown}:{listener.getsockname()[1]}")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    server.run(sockets=[listener])
