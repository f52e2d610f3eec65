"""Files through the `fleetmark` command into a lake, as a user runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from .workload import Work, environment

COMMAND = str(Path(sys.executable).with_name("fleetmark"))


def started(
    *arguments: str,
    out: int | IO[bytes] = subprocess.DEVNULL,
    err: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """A command that goes on beside its caller, in the same environment as `command`."""
    return subprocess.Popen([COMMAND, *arguments], stdout=out, stderr=err, env=environment())


def command(*arguments: str) -> str:
    """What a command prints. Raises RuntimeError when it fails."""
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, check=False, env=environment()
    )
    if done.returncode:
        raise RuntimeError(f"fleetmark {' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


def ingest(source: str, path: Path, store: Path, *facts: str) -> list[dict[str, Any]]:
    """What `fleetmark ingest SOURCE` reports of a file or folder. Raises RuntimeError when it fails."""
    stated = [word for fact in ("cluster=bench", *facts) for word in ("--set", fact)]
    printed = command("ingest", source, str(path), *stated, "--store", str(store), "--json")
    return list(json.loads(printed))


def ingest_new(source: str, path: Path) -> dict[str, Any]:
    """What `fleetmark ingest SOURCE` reports of a file and a new lake beside it.

    Raises RuntimeError when it fails.
    """
    store = path.with_name("lake")
    shutil.rmtree(store, ignore_errors=True)
    (report,) = ingest(source, path, store)
    return report


def stored_bytes(store: Path) -> int:
    """Bytes of the Parquet files of a lake."""
    return sum(path.stat().st_size for path in (store / "data").rglob("*.parquet"))


def ingest_access_lines(path: Path) -> Work:
    """`fleetmark ingest s3_access`: lines, with the start and the imports of the command.

    Raises RuntimeError unless every line is in the lake.
    """
    report = ingest_new("s3_access", path)
    lines = int(report["line_count"])
    if report["row_count"] != lines:
        raise RuntimeError(f"{report['row_count']} rows of {lines} lines")
    return Work(lines, {"bytes a line": stored_bytes(path.with_name("lake")) / lines})
