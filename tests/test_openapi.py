"""Requests that schemathesis makes up from the description of the API, with and without keys."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.result import Ok

from fleetmark.access.keys import KeyRing
from fleetmark.access.rules import ROLES, Role
from fleetmark.catalog import load_catalog
from fleetmark.query.process import Limits
from fleetmark.settings import Settings

create_app = import_module("fleetmark.api.app").create_app

# One table of each kind stands for the others: with days, with intervals, with lists, without time.
SOME = r"^/(?!tables/[a-z])|^/tables/(finding|job_attempt)/rows"
ROUTES = 11
# Made-up SQL, cursors, sort orders and zones are of the right type and wrong all the same.
LEFT_OUT = [positive_data_acceptance]
QUICK = settings(
    max_examples=2, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
THOROUGH = settings(QUICK, max_examples=20)


@contextmanager
def served(root: Path, auth: dict[str, Any]) -> Iterator[str]:
    app = create_app(Settings(store=root, auth=auth), limits=Limits(deadline_s=5), workers=2)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def explore(url: str, headers: dict[str, str], chosen: str, how: settings) -> int:
    """Ask every route of the description that matches; how many there were. Fails on the first surprise."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json").include(path_regex=chosen)
    count = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found

        @how
        @given(case=found.ok().as_strategy())
        def ask(case: Any) -> None:
            case.call_and_validate(headers=headers, excluded_checks=LEFT_OUT)

        ask()
        count += 1
    return count


def key_of(folder: Path, role: Role) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings that ask for keys, and the headers of one."""
    now = datetime(2026, 11, 30)  # noqa: DTZ001 - UTC without zone, as everywhere
    key = KeyRing(folder / "keys.json").create("tester", role, now)
    auth = {"keys": str(folder / "keys.json"), "requests_per_min": 1_000_000}
    return auth, {"Authorization": f"Bearer {key}"}


def test_answers_are_those_described_without_keys(fleet: Path) -> None:
    with served(fleet, {}) as url:
        assert explore(url, {}, SOME, QUICK) == ROUTES


def test_answers_are_those_described_with_a_key(fleet: Path, tmp_path: Path) -> None:
    auth, headers = key_of(tmp_path, "viewer")
    with served(fleet, auth) as url:
        assert explore(url, headers, SOME, QUICK) == ROUTES
        assert explore(url, {}, r"^/tables$|^/query$", QUICK) == 3


@pytest.mark.long
@pytest.mark.parametrize("role", [None, *ROLES])
def test_every_route_as_every_role(role: Role | None, fleet: Path, tmp_path: Path) -> None:
    auth, headers = ({}, {}) if role is None else key_of(tmp_path, role)
    with served(fleet, auth) as url:
        assert explore(url, headers, ".*", THOROUGH) > len(load_catalog().tables)
