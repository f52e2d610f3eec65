"""The file of S3 access lines that the reference and the storage workloads read.

Ten real lines (samples/storage/s3_access), seven of ten lines drawn from the three ordinary ones
and three of ten from the seven awkward ones, seed 7; request id, client address and time of day
vary. 2,000,000 lines are 1.14 GB.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import count
from pathlib import Path

SEED = 7
ORDINARY_SHARE = 0.7
LINES = 2_000_000
_BATCH = 10_000
_SAMPLES = "storage/s3_access"
_ORDINARY = "2020-01-01-05-06-35-0123456789ABCDEF"
_AWKWARD = "2022-01-01-05-06-35-0123456789ABCDEF"
# Owner, bucket, day | time of day | zone | address | requester | request id | the rest.
_PARTS = re.compile(r"(.*?\[[^:]*:)(\S+)( \S+\] )(\S+)(  ?\S+ )(\S+)( .*)")


def _templates(name: str) -> list[tuple[str, str, str, str]]:
    """The constant parts of each line: before time, address, request id, and after it."""
    text = (files("fleetmark.samples") / _SAMPLES / name).read_text(encoding="utf-8")
    parts = (_PARTS.fullmatch(line) for line in text.splitlines())
    return [(m[1], m[3], m[5], m[7] + "\n") for m in parts if m]


def write_lines(path: Path, number: int) -> Path:
    """Write the first `number` of lines to `path`; left alone when it exists."""
    if not path.exists():
        with path.open("w", encoding="utf-8", newline="\n") as out:
            for batch in batches():
                out.writelines(batch[:number])
                number -= len(batch)
                if number <= 0:
                    break
    return path


def write_bytes(path: Path, size: int) -> Path:
    """Write whole lines until `path` holds `size` bytes; left alone when it exists."""
    if not path.exists():
        with path.open("w", encoding="utf-8", newline="\n") as out:
            for batch in batches():
                out.writelines(batch)
                if out.tell() >= size:
                    break
    return path


def batches() -> Iterator[list[str]]:
    """The lines of the file, without end."""
    draw = random.Random(SEED)  # noqa: S311 - seeded randomness is the point
    ordinary, awkward = _templates(_ORDINARY), _templates(_AWKWARD)
    for start in count(0, _BATCH):
        batch = []
        for number in range(start, start + _BATCH):
            chosen = ordinary if draw.random() < ORDINARY_SHARE else awkward
            head, zone, requester, rest = draw.choice(chosen)
            minute, second = divmod(number % 86_400, 60)
            clock = f"{minute // 60:02}:{minute % 60:02}:{second:02}"
            address = f"198.51.{draw.randrange(256)}.{draw.randrange(256)}"
            request = f"{draw.getrandbits(64):016X}"
            batch.append(f"{head}{clock}{zone}{address}{requester}{request}{rest}")
        yield batch
