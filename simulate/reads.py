"""Storage requests: what principals ask of the bucket, as transfers, then as single requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from .checkpoints import Checkpoint, Object
from .fleet import Fleet, stream
from .jobs import Attempt

ACCOUNT = "111122223333"
MIB = 1 << 20
UPLOAD_PART, LOAD_PART = 512 * MIB, 256 * MIB
LOADER = "Boto3/1.40.1 md/Botocore#1.40.1 ua/2.1 os/linux#5.15.0 md/arch#x86_64 lang/python#3.11.9"


def job_principal(attempt: Attempt) -> str:
    """The session name carries the job id, so that the log's requester can be joined to the job."""
    return f"arn:aws:sts::{ACCOUNT}:assumed-role/{attempt.user.name}/job-{attempt.job_id}"


def adhoc_principal(user_name: str) -> str:
    """Somebody's own session, outside any job."""
    return f"arn:aws:sts::{ACCOUNT}:assumed-role/{user_name}/adhoc"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Objects moved by one principal within `[start_s, start_s + seconds)`.

    operation   REST.GET.OBJECT in ranges of `part_bytes`, or REST.PUT.PART in parts of that size
    limit       at most so many requests (a look at the head of a file); None: whole objects
    """

    principal: str
    ip: str
    user_agent: str
    objects: tuple[Object, ...]
    start_s: float
    seconds: float
    part_bytes: int
    operation: str = "REST.GET.OBJECT"
    limit: int | None = None

    def parts(self, item: Object) -> np.ndarray:
        """Bytes of each request for one object."""
        count = -(-item.size_bytes // self.part_bytes)
        sizes = np.full(count, self.part_bytes, dtype=np.int64)
        sizes[-1] = item.size_bytes - self.part_bytes * (count - 1)
        return sizes[: self.limit]

    @property
    def size_bytes(self) -> int:
        return sum(int(self.parts(item).sum()) for item in self.objects)


@dataclass(frozen=True, slots=True)
class Benign:
    """A lawful event that looks like theft to somebody who does not know the jobs."""

    kind: str
    principal: str
    job_id: int | None
    checkpoint: str
    transfer: Transfer
    note: str


def load(
    fleet: Fleet, attempt: Attempt, checkpoint: Checkpoint, seconds: float, delay_s: float = 20.0
) -> Transfer:
    """A job reads a checkpoint whole, soon after it has started."""
    node = fleet.node(attempt.node_names[0])
    return Transfer(
        job_principal(attempt),
        node.ip,
        LOADER,
        (*checkpoint.objects[-1:], *checkpoint.shards),
        attempt.begin_s + delay_s,
        seconds,
        part_bytes=LOAD_PART,
    )


def save(fleet: Fleet, attempt: Attempt, checkpoint: Checkpoint) -> Transfer:
    """A job uploads a checkpoint in parts."""
    node = fleet.node(attempt.node_names[0])
    return Transfer(
        job_principal(attempt),
        node.ip,
        LOADER,
        checkpoint.objects,
        checkpoint.saved_s,
        240.0,
        UPLOAD_PART,
        operation="REST.PUT.PART",
    )


def requests(seed: int, transfers: Iterable[Transfer]) -> pl.DataFrame:
    """Every request of every transfer, by time.

    Columns: ts (s, float), principal, ip, user_agent, operation, key, part (from 1), sent_bytes,
    object_bytes, total_time_ms. Within a transfer requests are evenly spread with random gaps:
    four streams pull at a steady rate.
    """
    random = stream(seed, "requests")
    frames = [_of_transfer(random, transfer) for transfer in transfers]
    return pl.concat(frames).sort("ts", maintain_order=True)


def _of_transfer(random: np.random.Generator, transfer: Transfer) -> pl.DataFrame:
    keys, part, sent, size = zip(*_of_objects(transfer), strict=True)
    sent_bytes = np.concatenate(sent)
    gaps = sent_bytes * random.gamma(4.0, 0.25, sent_bytes.size)
    share = np.cumsum(gaps) / gaps.sum()
    each_s = transfer.seconds * 4 * gaps / gaps.sum()
    return pl.DataFrame(
        {
            "ts": transfer.start_s + transfer.seconds * (share - gaps / gaps.sum()),
            "key": pl.concat([pl.Series([key]).new_from_index(0, p.size)
                              for key, p in zip(keys, part, strict=True)]),
            "part": np.concatenate(part),
            "sent_bytes": sent_bytes,
            "object_bytes": np.concatenate(size),
            "total_time_ms": np.maximum(4, each_s * 1000).astype(np.int64),
        }
    ).with_columns(
        pl.lit(transfer.principal).alias("principal"),
        pl.lit(transfer.ip).alias("ip"),
        pl.lit(transfer.user_agent).alias("user_agent"),
        pl.lit(transfer.operation).alias("operation"),
    )  # fmt: skip


def _of_objects(
    transfer: Transfer,
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    for item in transfer.objects:
        parts = transfer.parts(item)
        yield (
            item.key,
            np.arange(1, parts.size + 1, dtype=np.int64),
            parts,
            np.full(parts.size, item.size_bytes, dtype=np.int64),
        )
