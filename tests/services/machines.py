"""Machines of a small network: each a network namespace of its own behind one bridge. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

BRIDGE = "fmbridge"
NET = "10.203.0"
HOST = f"{NET}.1"  # where services listen that all machines reach


def missing() -> str:
    """Why there can be none here; '' when there can."""
    if os.geteuid() != 0:
        return "not root"
    return "" if shutil.which("ip") else "iproute2 is not installed"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Machines:
    """`number` of them. A context manager."""

    def __init__(self, number: int) -> None:
        self.names = [f"fm{n}" for n in range(number)]

    def address(self, name: str) -> str:
        return f"{NET}.{2 + self.names.index(name)}"

    def start(
        self, name: str, *command: str, log: Path, settings: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Run something on a machine, with `settings` in its environment."""
        with log.open("ab") as out:
            return subprocess.Popen(
                ["ip", "netns", "exec", name, *command], stdout=out, stderr=out,
                env={**os.environ, **settings},
            )  # fmt: skip

    def __enter__(self) -> Self:
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{HOST}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for name in self.names:
            _ip("netns", "add", name)
            _ip("link", "add", f"{name}b", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"{name}b", "master", BRIDGE, "up")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
            _ip("-n", name, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            _ip("netns", "del", name)
        _ip("link", "del", BRIDGE)


def descendants(pid: int) -> list[tuple[int, str]]:
    """Processes that a process has started, and theirs: id and command line."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, walk = [], [pid]
    while walk:
        for child in children.get(walk.pop(), []):
            walk.append(child)
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found.append((child, line))
    return found
