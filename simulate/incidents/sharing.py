"""GPUs that several tenants share: none is slow, though each does less for its job than whole ones.

How exporters print them: samples/telemetry/SOURCES.md names no capture of either; the labels are those of
NVIDIA/dcgm-exporter@d5e5f51 (internal/pkg/collector and transformation: GPU_I_ID, GPU_I_PROFILE, pod, vgpu).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..conditions import Conditions, Region
from ..health import NOT_PRINTED
from . import Incident, Kind

if TYPE_CHECKING:
    from ..telemetry import Samples

INSTANCE_COUNT = 2  # of profile 3g.40gb: an A100 of 80 GB holds two
POD_COUNT = 3


class MigPartitioned(Kind):
    """Split into MIG instances, each printed beside the whole GPU, whose power, clocks and energy they
    repeat (dcgm-exporter issues 317, 353); the whole GPU's utilisation is not to be had (430).
    """

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.work[cells] *= 1 - incident.effect_ratio

    def show(self, samples: Samples, cells: Region) -> None:
        samples.instances[cells] = INSTANCE_COUNT
        samples.values["util_percent"][cells] = NOT_PRINTED


class TimeSliced(Kind):
    """Pods take turns on it: the exporter prints each of its series once more for every pod
    (nebius/soperator PR 2923; dcgm-exporter's option kubernetes-virtual-gpus). `effect_ratio`: so much
    less load than its neighbours. In a synchronous job other tenants would slow it indeed.
    """

    is_fault = False

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.work[cells] *= 1 - incident.effect_ratio

    def show(self, samples: Samples, cells: Region) -> None:
        samples.pods[cells] = POD_COUNT
