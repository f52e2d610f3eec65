"""A file through the `fleetmark` command into a new lake, as a user runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def ingest_new(source: str, path: Path) -> dict[str, Any]:
    """What `fleetmark ingest SOURCE` reports of a file and a new lake beside it.

    Raises RuntimeError when it fails.
    """
    store = path.with_name("lake")
    shutil.rmtree(store, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("fleetmark")), "ingest", source, str(path)]
    done = subprocess.run(
        [*command, "--store", str(store), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    (report,) = json.loads(done.stdout)
    return dict(report)


def ingest_access_lines(path: Path) -> int:
    """`fleetmark ingest s3_access`: lines, with the start and the imports of the command.

    Raises RuntimeError unless every line is in the lake.
    """
    report = ingest_new("s3_access", path)
    if report["row_count"] != report["line_count"]:
        raise RuntimeError(f"{report['row_count']} rows of {report['line_count']} lines")
    return int(report["line_count"])
