"""A real Alertmanager of its own: `prometheus-alertmanager` of Debian on a free port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
CONFIG = "route: {receiver: none}\nreceivers: [{name: none}]\n"
START_S = 30


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Its address, once it answers. Ends with the block."""
    assert PROGRAM is not None
    (folder / "alertmanager.yml").write_text(CONFIG, encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [PROGRAM, f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data",
         f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield _ready(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)


def _ready(url: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if requests.get(f"{url}/-/ready", timeout=1).ok:
                return url
        except requests.RequestException:
            time.sleep(0.1)
    raise AssertionError(f"Alertmanager is not ready after {START_S} s")
