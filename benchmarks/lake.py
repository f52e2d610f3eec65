"""A file through the `fleetmark` command into a new lake, as a user runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path


def ingest_access_lines(path: Path) -> int:
    """`fleetmark ingest s3_access`: lines, with the start and the imports of the command.

    Raises RuntimeError unless every line is in the lake.
    """
    store = path.with_name("lake")
    shutil.rmtree(store, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("fleetmark")), "ingest", "s3_access", str(path)]
    done = subprocess.run(
        [*command, "--store", str(store), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    (report,) = json.loads(done.stdout)
    if report["row_count"] != report["line_count"]:
        raise RuntimeError(f"{report['row_count']} rows of {report['line_count']} lines")
    return int(report["line_count"])
