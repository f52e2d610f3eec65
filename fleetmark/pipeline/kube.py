"""What the API server of a Kubernetes cluster is asked for, through its maintained client.

The client (`pip install fleetmark[kubernetes]`) brings kubeconfig, in-cluster credentials and their
renewal; answers are taken as they are, undecoded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import urllib3

from fleetmark.errors import ServiceError, ServiceUnreachableError

TIMEOUT_S = 120
PAGE_OBJECTS = 500
# How long a watch that goes on from a cursor stays open: changes since then come at once.
WATCH_S = 3
GONE = 410
# Resources that the source `kubernetes` reads, by API group; '' is the core's.
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "": ("pods", "nodes", "events", "resourcequotas"),
    "batch": ("jobs",),
    "kueue.x-k8s.io": ("workloads", "clusterqueues", "localqueues", "cohorts", "resourceflavors"),
    "batch.volcano.sh": ("jobs",),
    "scheduling.volcano.sh": ("podgroups", "queues"),
    "scheduling.run.ai": ("podgroups", "queues"),
}


class CursorGoneError(ServiceError):
    """The server no longer has the changes since that resource version."""


class PageMeta(msgspec.Struct):
    """What a page says of itself."""

    version: str | None = msgspec.field(default=None, name="resourceVersion")
    next_page: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct):
    """A page of a list; its objects are not decoded."""

    metadata: PageMeta = msgspec.field(default_factory=PageMeta)


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a resource, as the pages of its list, and where a watch goes on from."""

    pages: list[bytes]
    cursor: str | None


class Kubernetes:
    """One cluster's API server, as kubeconfig (or a pod's service account) names it."""

    def __init__(self, context: str | None = None) -> None:
        try:
            from kubernetes import client, config  # noqa: PLC0415 - an extra, 2 s to import
        except ImportError:
            raise ServiceError(
                "the Kubernetes client is not installed: pip install 'fleetmark[kubernetes]'"
            ) from None
        # `config.load_config` hands the context to the pod's account, too, which takes none.
        named = config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep)
        try:
            if context or any(Path(name).expanduser().exists() for name in named):
                config.load_kube_config(context=context)
            else:
                config.load_incluster_config()
        except config.ConfigException as error:
            raise ServiceError(f"no cluster is configured: {error}") from None
        self._client = client.ApiClient()
        self._refused: type[Exception] = client.ApiException
        self.endpoint: str = self._client.configuration.host

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def paths(self) -> Iterator[str]:
        """Paths of the resources of `RESOURCES` that this cluster has, in the version it prefers."""
        yield from (f"/api/v1/{name}" for name in RESOURCES[""])
        groups = json.loads(self._get("/apis", {}))["groups"]
        for group in groups:
            wanted = set(RESOURCES.get(group["name"], ()))
            preferred = group["preferredVersion"]["groupVersion"]
            others = [v["groupVersion"] for v in group["versions"]]
            for version in dict.fromkeys([preferred, *others]):
                if not wanted:
                    break
                listed = json.loads(self._get(f"/apis/{version}", {}))["resources"]
                here = wanted & {resource["name"] for resource in listed}
                yield from (f"/apis/{version}/{name}" for name in sorted(here))
                wanted -= here

    def list(self, path: str) -> Listing:
        """Every object, page by page. Raises ServiceError."""
        pages, query = [], {"limit": str(PAGE_OBJECTS)}
        while True:
            page = self._get(path, query)
            pages.append(page)
            meta = msgspec.json.decode(page, type=Page).metadata
            if not meta.next_page:
                return Listing(pages, meta.version)
            query = {"limit": str(PAGE_OBJECTS), "continue": meta.next_page}

    def changes(self, path: str, cursor: str) -> bytes:
        """What changed since a resource version, a JSON object a line; of a line that was cut nothing.

        Raises CursorGoneError when the server has forgotten it.
        """
        query = {"watch": "true", "resourceVersion": cursor, "timeoutSeconds": str(WATCH_S),
                 "allowWatchBookmarks": "true"}  # fmt: skip
        answer = self._get(path, query)
        answer = answer[: answer.rfind(b"\n") + 1]
        last = answer.rstrip().rpartition(b"\n")[2]
        if b'"ERROR"' in last and json.loads(last).get("object", {}).get("code") == GONE:
            raise CursorGoneError(f"{path}: resource version {cursor} is gone")
        return answer

    def _get(self, path: str, query: Mapping[str, str]) -> bytes:
        try:
            answer: Any = self._client.call_api(
                path, "GET", query_params=[*query.items()], auth_settings=["BearerToken"],
                header_params={"Accept": "application/json"}, _preload_content=False,
                _return_http_data_only=True, _request_timeout=TIMEOUT_S,
            )  # fmt: skip
            return bytes(answer.data)
        except self._refused as error:
            status = getattr(error, "status", 0)
            if status == GONE:
                raise CursorGoneError(f"{path}: {getattr(error, 'reason', '')}") from None
            if status and status < 500:
                hint = {401: "check the credentials", 403: "the account needs get, list and watch"}
                reason = hint.get(status, getattr(error, "reason", ""))
                raise ServiceError(f"{self.endpoint}{path} answers {status}: {reason}") from None
            raise ServiceUnreachableError(f"{self.endpoint}{path}: {error}") from None
        except urllib3.exceptions.HTTPError as error:
            raise ServiceUnreachableError(f"{self.endpoint}{path}: {error}") from None
