"""The kernel's log of each node, as `journalctl -k -o short-iso` prints it in UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from .incidents import Incident, KernelLine, kinds


def lines(incidents: Iterable[Incident]) -> list[KernelLine]:
    """What the kernels of all nodes print because of the incidents, in order of time."""
    found = [line for i in incidents for line in kinds()[i.kind].kernel(i)]
    return sorted(found, key=lambda line: (line.node, line.ts_s))


def write(incidents: Iterable[Incident], folder: Path) -> None:
    """One file per node that has anything to say."""
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[str]] = {}
    for line in lines(incidents):
        stamp = datetime.fromtimestamp(line.ts_s, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
        texts.setdefault(line.node, []).append(f"{stamp} {line.node} kernel: {line.text}\n")
    for node, text in texts.items():
        (folder / f"{node}.log").write_bytes("".join(text).encode())
