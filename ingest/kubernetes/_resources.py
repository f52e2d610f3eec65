"""GPUs in requests: which resource names count GPUs, and what a pod asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._json_values import part, text
from ._objects import mapping, objects_of
from ._values import quantity

# Extended resources of the vendors' device plugins that stand for one whole device or MIG instance.
DEVICE = re.compile(
    r"^(?:nvidia\.com/(?:gpu|mig-(?P<mig>.+)|[A-Z][\w.-]*)|amd\.com/gpu|gpu\.intel\.com/(?:i915|xe)|"
    r"habana\.ai/gaudi)$"
)
# A share of a device: time slicing with renameByDefault, HAMi's cores and memory, Aliyun's gpushare.
SHARED = re.compile(
    r"^(?:nvidia\.com/gpu(?:cores|mem|mem-percentage)|.*\.shared|aliyun\.com/gpu-mem|"
    r"volcano\.sh/(?:vgpu|gpu).*)$"
)
MODEL_LABELS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name",
    "gpu.nvidia.com/model", "node.kubernetes.io/gpu-model",
)  # fmt: skip


@dataclass(slots=True)
class Request:
    """What a pod (or a pod set) asks for."""

    gpus: float | None = None
    is_fractional: bool = False
    cpus: float | None = None
    mem_bytes: float | None = None
    models: dict[str, int] = field(default_factory=dict)

    def times(self, count: int) -> Request:
        """The same for `count` pods."""

        def scaled(value: float | None) -> float | None:
            return None if value is None else value * count

        models = {model: n * count for model, n in self.models.items()}
        return Request(scaled(self.gpus), self.is_fractional, scaled(self.cpus),
                       scaled(self.mem_bytes), models)  # fmt: skip

    def columns(self, prefix: str) -> dict[str, Any]:
        """`req_…` or `alloc_…` columns of job_attempt."""
        return {
            f"{prefix}_gpus": None if self.gpus is None or self.is_fractional else int(self.gpus),
            f"{prefix}_cpus": None if self.cpus is None else int(-(-self.cpus // 1)),
            f"{prefix}_mem_bytes": None if self.mem_bytes is None else int(self.mem_bytes),
        }

    @property
    def gpu_count_source(self) -> str:
        if self.is_fractional:
            return "fractional"
        if self.gpus is None:
            return "not_collected"
        return "k8s_request" if self.gpus else "no_gpu_entry"


def is_device(resource: str) -> bool:
    """Does the resource count whole GPUs or MIG instances?"""
    return DEVICE.match(resource) is not None and SHARED.match(resource) is None


def is_shared(resource: str) -> bool:
    """Does the resource count shares of a GPU?"""
    return SHARED.match(resource) is not None


def devices(resources: Mapping[str, Any], model: str | None) -> tuple[float, dict[str, int]]:
    """GPUs of a resource list, and how many of which model (of MIG its profile)."""
    total, models = 0.0, dict[str, int]()
    for name, value in resources.items():
        count = quantity(value)
        if not count or not is_device(name):
            continue
        total += count
        mig = re.match(r"nvidia\.com/mig-(.+)", name)
        known = mig[1] if mig else model
        if known and count == int(count):
            models[known] = models.get(known, 0) + int(count)
    return total, models


def pod_request(spec: Mapping[str, Any]) -> Request:
    """What a pod with this spec asks for: containers and sidecars together, or the largest init.

    Of GPUs and CPU the limit stands for a request that is not given, as in Kubernetes.
    """
    running = objects_of(spec.get("containers"))
    inits = objects_of(spec.get("initContainers"))
    running += [c for c in inits if c.get("restartPolicy") == "Always"]
    total: dict[str, float] = {}
    for container in running:
        for name, count in _asked(container).items():
            total[name] = total.get(name, 0.0) + count
    for container in inits:
        for name, count in _asked(container).items():
            total[name] = max(total.get(name, 0.0), count)
    gpus, models = devices(total, _model(spec))
    return Request(
        gpus=gpus,
        is_fractional=any(is_shared(name) for name, count in total.items() if count),
        cpus=total.get("cpu"),
        mem_bytes=total.get("memory"),
        models=models,
    )


def summed(requests: Sequence[Request]) -> Request:
    """What several pods ask for together; of no pods nothing is known."""
    whole = Request(gpus=0.0 if requests else None)
    for request in requests:
        whole.gpus = (whole.gpus or 0.0) + (request.gpus or 0.0)
        whole.is_fractional |= request.is_fractional
        for name in ("cpus", "mem_bytes"):
            value = getattr(request, name)
            if value is not None:
                setattr(whole, name, (getattr(whole, name) or 0.0) + value)
        for model, count in request.models.items():
            whole.models[model] = whole.models.get(model, 0) + count
    return whole


def model_of_labels(labels: object) -> str | None:
    """The GPU model that labels of a node, a flavor or a selector name."""
    found = mapping(labels)
    return next((text(found[name]) for name in MODEL_LABELS if text(found.get(name))), None)


def model_columns(models: Mapping[str, int]) -> dict[str, Any]:
    """gpu_models and gpu_model_counts, in order of the names."""
    names = sorted(models)
    return {
        "gpu_models": names or None,
        "gpu_model_counts": [models[name] for name in names] or None,
    }


def _asked(container: Mapping[str, Any]) -> dict[str, float]:
    resources = mapping(container.get("resources"))
    both = {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}
    return {name: count for name, value in both.items() if (count := quantity(value)) is not None}


def _model(spec: Mapping[str, Any]) -> str | None:
    """The model that the pod's node selector, or its only required affinity term, asks for."""
    if model := model_of_labels(spec.get("nodeSelector")):
        return model
    terms = objects_of(
        part(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
             "nodeSelectorTerms")
    )  # fmt: skip
    if len(terms) != 1:
        return None
    for rule in objects_of(terms[0].get("matchExpressions")):
        values = rule.get("values")
        if rule.get("key") in MODEL_LABELS and rule.get("operator") == "In" and values:
            return text(values[0]) if isinstance(values, list) and len(values) == 1 else None
    return None
