"""ResourceQuotas of namespaces as rows of `quota`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .._json_values import part
from ._objects import Entry, mapping
from ._resources import is_device
from ._rows import Rows
from ._values import quantity


def add_resource_quotas(entries: Sequence[Entry], observed: datetime, rows: Rows) -> None:
    """A row per resource; `requests.` is dropped from names, other names stay as they are."""
    for entry in {(e.namespace, e.name): e for e in entries}.values():
        if entry.change == "DELETED":
            continue
        hard = {
            **mapping(part(entry.body, "spec", "hard")),
            **mapping(part(entry.body, "status", "hard")),
        }
        used = mapping(part(entry.body, "status", "used"))
        for name, limit in hard.items():
            resource = name.removeprefix("requests.")
            rows.add("quota", entry.line_no, {
                "queue_kind": "resource_quota",
                "queue": f"{entry.namespace}/{entry.name}",
                "flavor": "",
                "resource": resource,
                "observed_ts": observed,
                "is_gpu": is_device(resource),
                "nominal": quantity(limit),
                "max_limit": quantity(limit),
                "used": quantity(used.get(name)),
                "source": "k8s",
            })  # fmt: skip
