"""An MLflow tracking server as seen by `fleetmark pull mlflow`: runs with the history of their metrics.

Each run becomes a document that the source `mlflow` reads, so that what holds for files holds here: a run
that did not change is not read twice, and of one that goes on the new steps are added. REST API 2.0
(MLflow 1.x to 3.x): experiments/search, runs/search, metrics/get-history, each page after page.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError, ServiceError, ServiceUnreachableError
from fleetmark.pipeline.address import service_address
from fleetmark.pipeline.prometheus import epoch_ms
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store

SOURCE = "mlflow"
TIMEOUT_S = 60
RETRIES = 4
_BUSY = (429, 500, 502, 503, 504)
PAGE_RUNS = 200
PAGE_EXPERIMENTS = 1000
# The most that the server gives (metrics/get-history).
PAGE_POINTS = 25_000
# Metrics of the host, one value every ten seconds; what they tell is in gpu_sample.
HOST_METRICS = "system/"
# Run ids are hex; a server that says otherwise must not choose the names of files.
_ID_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-")
_UTF8 = "utf-8"


@dataclass(frozen=True, slots=True)
class RunReport:
    """What became of one run. `state` as for files: read, unchanged."""

    run_id: str
    state: str
    row_count: int = 0
    repeat_count: int = 0
    reject_count: int = 0
    message: str = ""

    @property
    def fine(self) -> bool:
        return not self.message


class Mlflow:
    """One server. `url` is its address, up to what stands before `/api/2.0`.

    User and password come from ~/.netrc, certificate authorities from REQUESTS_CA_BUNDLE, proxies from
    the environment (all by requests); `headers` hold a token or a workspace.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.url = service_address(url, "an MLflow server", "http://HOST:5000")
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.headers.update(headers or {})
        retry = Retry(
            total=RETRIES, backoff_factor=0.5, status_forcelist=_BUSY, allowed_methods=None,
            raise_on_status=False,
        )  # fmt: skip
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def experiments(self, names: Sequence[str]) -> list[str]:
        """Ids of the experiments of these names, or of all. Raises InputError for an unknown name."""
        body = {"max_results": PAGE_EXPERIMENTS}
        found = {
            str(e["name"]): str(e["experiment_id"])
            for e in self._pages("POST", "experiments/search", body, "experiments")
        }
        if unknown := sorted(set(names) - set(found)):
            raise InputError(f"{self.url} has no experiment {', '.join(unknown)}")
        return [found[name] for name in names or sorted(found)]

    def runs(
        self, experiment_ids: Sequence[str], start: datetime | None
    ) -> Iterator[dict[str, Any]]:
        """Runs that started at `start` or later, oldest first, as runs/search gives them."""
        for experiment in experiment_ids:
            body: dict[str, object] = {
                "experiment_ids": [experiment], "max_results": PAGE_RUNS,
                "order_by": ["attributes.start_time ASC"],
            }  # fmt: skip
            if start is not None:
                body["filter"] = f"attributes.start_time >= {epoch_ms(start)}"
            yield from self._pages("POST", "runs/search", body, "runs")

    def history(self, run: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Every value of every metric of a run, those of the host left out."""
        run_id = run["info"].get("run_id") or run["info"].get("run_uuid")
        keys = [m["key"] for m in (run.get("data") or {}).get("metrics") or []]
        points: list[dict[str, Any]] = []
        for key in keys:
            if not str(key).startswith(HOST_METRICS):
                asked = {"run_id": run_id, "metric_key": key, "max_results": PAGE_POINTS}
                points += self._pages("GET", "metrics/get-history", asked, "metrics")
        return points

    def _pages(
        self, method: str, path: str, asked: Mapping[str, object], name: str
    ) -> Iterator[dict[str, Any]]:
        """The entries of all pages. Servers without paging answer with one."""
        token = ""
        while True:
            page = self._answer(method, path, {**asked, **({"page_token": token} if token else {})})
            entries = page.get(name) or []
            if not isinstance(entries, list):
                raise ServiceError(
                    f"{self.url} answers, but not as an MLflow does: check the address"
                )
            yield from entries
            last, token = token, str(page.get("next_page_token") or "")
            if not token or token == last:
                return

    def _answer(self, method: str, path: str, asked: Mapping[str, object]) -> dict[str, Any]:
        is_post = method == "POST"
        try:
            response = self._session.request(
                method, f"{self.url}/api/2.0/mlflow/{path}", timeout=self._timeout_s,
                json=asked if is_post else None,
                params=None if is_post else {name: str(value) for name, value in asked.items()},
            )  # fmt: skip
            status, text = response.status_code, " ".join(response.text.split())[:200]
            page = response.json() if status == HTTPStatus.OK else {}
        except requests.exceptions.JSONDecodeError:
            page = None
        except requests.RequestException as error:
            raise ServiceUnreachableError(f"{self.url} cannot be reached: {error}") from None
        if not isinstance(page, dict):
            raise ServiceError(f"{self.url} answers, but not as an MLflow does: check the address")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise ServiceError(
                f"{self.url} wants a login (HTTP {status}): give --token-file, or user and "
                "password in ~/.netrc"
            )
        if status in _BUSY:
            raise ServiceUnreachableError(f"{self.url} cannot answer (HTTP {status}): {text}")
        if status != HTTPStatus.OK:
            raise ServiceError(f"{self.url} refuses {path} (HTTP {status}): {text}")
        return page


def pull_mlflow(
    store: Store, catalog: Catalog, server: Mlflow, options: Mapping[str, str],
    experiments: Sequence[str], start: datetime | None, now: datetime,
) -> Iterator[RunReport]:  # fmt: skip
    """Pull the runs of some experiments (none named: all) since `start`; a report per run.

    Raises InputError for an unknown option or experiment, ServiceError where the server refuses.
    """
    catalog.sources[SOURCE].check_options(options)
    scratch = store.root / "tmp"
    scratch.mkdir(exist_ok=True)
    host = quote(urlsplit(server.url).netloc, safe="").replace("%3A", "-")
    for run in server.runs(server.experiments(experiments), start):
        run_id = str(run.get("info", {}).get("run_id") or run.get("info", {}).get("run_uuid"))
        if not set(run_id) <= _ID_CHARACTERS:
            raise ServiceError(f"{server.url} names a run {run_id!r}: is it an MLflow server?")
        document = json.dumps({"runs": [{**run, "history": server.history(run)}]})
        with tempfile.TemporaryDirectory(prefix="pull-", dir=scratch) as folder:
            path = Path(folder) / f"mlflow_{host}_{run_id}.json"
            path.write_text(document, encoding=_UTF8)
            (report,) = ingest(store, catalog, SOURCE, [path], options, {}, now)
        yield RunReport(
            run_id, report.state, report.row_count, report.repeat_count, report.reject_count,
            report.message,
        )  # fmt: skip
