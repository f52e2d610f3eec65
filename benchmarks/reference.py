"""REF, the unit of speed: what a plain regular expression in CPython does with S3 access lines.

26 groups after the pattern that Amazon publishes for Athena, over 20,000 lines held in memory,
groups taken. It needs nothing but CPython, so any machine can run it. About 240,000 lines per CPU
second at 2.6 GHz; it matches 83 % of the lines and loses the others.
"""

from __future__ import annotations

import re
from pathlib import Path

from .logs.access_lines import write_lines
from .workload import REFERENCE as NAME
from .workload import Workload

LINES = 20_000
PASSES = 10
_PLAIN = r" ([^ ]*)"
_QUOTED = r' ("[^"]*"|-)'
# owner bucket [time] ip requester id operation key "uri" status, six tokens (error to referer),
# "agent" version, and in newer lines eight more.
PATTERN = re.compile(
    r"([^ ]*) ([^ ]*) \[(.*?)\]"
    + _PLAIN * 5
    + _QUOTED
    + r" (-|[0-9]*)"
    + _PLAIN * 6
    + _QUOTED
    + _PLAIN
    + f"(?:{_PLAIN * 8})?.*$"
)


def prepare(folder: Path, _scale: float) -> Path:
    """The first 20,000 lines of the file, whatever the scale."""
    return write_lines(folder / "reference.log", LINES)


def load(path: Path) -> list[str]:
    """The lines, before the clock starts."""
    return path.read_text(encoding="utf-8").splitlines()


def match_all(lines: list[str]) -> int:
    """Match every line `PASSES` times; lines that do not match count like the others."""
    match = PATTERN.match
    for _ in range(PASSES):
        for line in lines:
            found = match(line)
            if found:
                found.groups()
    return len(lines) * PASSES


REFERENCE = Workload(
    name=NAME,
    doc="CPython `re`, 26 groups, 20,000 S3 access lines in memory",
    unit="lines",
    prepare=prepare,
    load=load,
    run=match_all,
)
