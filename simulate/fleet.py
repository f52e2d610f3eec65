"""The fleet itself: nodes, GPUs, users, and how long it is watched."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

CLUSTER = "sim"
START_S = 1_772_409_600  # 2026-03-02T00:00:00Z, a Monday; every simulated fleet begins here
DAY_S = 86_400
HOUR_S = 3_600
GPUS_PER_NODE = 8
GPU_MODEL = "NVIDIA A100-SXM4-80GB"  # the GPU of the published quantiles in telemetry.py
GRES_MODEL = "a100"


def stream(seed: int, part: str) -> np.random.Generator:
    """A random stream of its own for each part, so that a new part leaves the others unchanged."""
    return np.random.default_rng([seed, zlib.crc32(part.encode())])


@dataclass(frozen=True, slots=True, order=True)
class Gpu:
    """One GPU; `index` is its number in the node."""

    node: str
    index: int
    uuid: str
    serial: str
    pci_bus_id: str


@dataclass(frozen=True, slots=True)
class Node:
    """One server with its address, rack and leaf switch."""

    name: str
    ip: str
    rack: str
    leaf_switch: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class User:
    """A Unix and cloud identity, named after its work."""

    name: str
    uid: int
    account: str


TRAIN = User("train-llm", 2001, "pretrain")
EVAL = User("eval-ci", 2002, "research")
SERVE = User("serve-prod", 2003, "serving")
BACKUP = User("svc-backup", 2004, "infra")
ETL = User("etl", 2005, "data")
FINETUNE = tuple(User(f"ft-{n:02d}", 2010 + n, "research") for n in range(1, 5))


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes and the interval `[START_S, end_s)` in which they are watched."""

    nodes: tuple[Node, ...]
    days: int

    @property
    def end_s(self) -> int:
        return START_S + self.days * DAY_S

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)


def _uuid(random: np.random.Generator) -> str:
    digits = random.bytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def build_fleet(seed: int, nodes: int, days: int) -> Fleet:
    """`nodes` servers of eight GPUs, four servers to a rack, one leaf switch a rack."""
    random = stream(seed, "fleet")
    return Fleet(
        nodes=tuple(
            Node(
                name := f"gpu{number + 1:02d}",
                ip=f"10.20.{number // 200}.{10 + number % 200}",
                rack=f"r{number // 4 + 1:02d}",
                leaf_switch=f"leaf{number // 4 + 1:02d}",
                gpus=tuple(
                    Gpu(
                        name,
                        index,
                        f"GPU-{_uuid(random)}",
                        f"16{random.integers(10**10, 10**11)}",
                        f"00000000:{0x07 + 8 * index:02X}:00.0",
                    )
                    for index in range(GPUS_PER_NODE)
                ),
            )
            for number in range(nodes)
        ),
        days=days,
    )
