"""Checkpoints: sets of objects in a bucket, and the manifest that lists them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .fleet import HOUR_S, START_S, stream
from .jobs import Attempt

BUCKET = "fleet-checkpoints"
SAVE_EVERY_S = 6 * HOUR_S
RUN_FAMILY = "llm-7b-continue"
# bytes of weights in bfloat16 (2 a parameter) and shards of about 5 GB, as model hubs publish them
RELEASED = (("llm-7b", 14e9, 3, "internal"), ("llm-13b", 26e9, 6, "internal"),
            ("llm-70b", 140e9, 30, "secret"))  # fmt: skip
TRAINING_STATE_BYTES = 7e9 * 14  # bfloat16 weights and gradients' master copy with Adam's moments
INDEX_BYTES = 27_652


@dataclass(frozen=True, slots=True)
class Object:
    """One object of a checkpoint; `role` is weights or index."""

    key: str
    size_bytes: int
    etag: str
    role: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A set of objects that together hold a model. Released weights are there from the beginning."""

    name: str
    family: str
    sensitivity: str
    objects: tuple[Object, ...]
    saved_s: int = START_S

    @property
    def shards(self) -> tuple[Object, ...]:
        return tuple(item for item in self.objects if item.role != "index")

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.objects)


def _objects(
    random: np.random.Generator, keys: list[str], total_bytes: float, role: str, index: str
) -> tuple[Object, ...]:
    """Shards of nearly equal size, each with a multipart etag, and the index file beside them."""
    sizes = total_bytes / len(keys) * (1 - random.uniform(0, 0.01, len(keys)))
    shards = [
        Object(key, int(size), f"{random.bytes(16).hex()}-{-(-int(size) // (512 << 20))}", role)
        for key, size in zip(keys, sizes, strict=True)
    ]
    return (*shards, Object(index, INDEX_BYTES, random.bytes(16).hex(), "index"))


def released(seed: int) -> tuple[Checkpoint, ...]:
    """Weights as they lie in the bucket before the window begins (Hugging Face layout)."""
    random = stream(seed, "checkpoints")
    return tuple(
        Checkpoint(
            name,
            name,
            sensitivity,
            _objects(
                random,
                [f"{name}/model-{n:05d}-of-{shards:05d}.safetensors" for n in range(1, shards + 1)],
                total_bytes,
                "weights",
                f"{name}/model.safetensors.index.json",
            ),
        )
        for name, total_bytes, shards, sensitivity in RELEASED
    )


def saved(seed: int, runs: tuple[Attempt, ...], end_of_window_s: int) -> tuple[Checkpoint, ...]:
    """What the training job saves every six hours of running (Megatron-LM layout, a shard a rank)."""
    random = stream(seed, "saves")
    found: list[Checkpoint] = []
    for run in runs:
        if run.start_s is None:
            continue
        until_s = run.end_s or end_of_window_s
        for saved_s in range(run.start_s + SAVE_EVERY_S, until_s - HOUR_S, SAVE_EVERY_S):
            name = f"iter_{(len(found) + 1) * 4000:07d}"
            keys = [
                f"{RUN_FAMILY}/{name}/mp_rank_{rank:02d}/model_optim_rng.pt"
                for rank in range(len(run.gpus))
            ]
            objects = _objects(
                random,
                keys,
                TRAINING_STATE_BYTES,
                "weights",
                f"{RUN_FAMILY}/{name}/metadata.json",
            )
            found.append(Checkpoint(f"{RUN_FAMILY}/{name}", RUN_FAMILY, "secret", objects, saved_s))
    return tuple(found)
