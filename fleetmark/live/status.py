"""How each part and input stands, as small files in the store's folder `run/`.

They change every few seconds, which would make a snapshot of the lake each time; what must outlive
a part (positions, rows, rejects) stands in the lake.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import duckdb

from fleetmark.errors import FleetmarkError

FOLDER = "run"
# What a part outlives: it says so and tries again. DuckDB's own errors are of a store that cannot even be
# read, as on a full disk.
PASSING = (FleetmarkError, OSError, duckdb.Error)


@dataclass(frozen=True, slots=True)
class Looked:
    """Rows and rejects that a look added; `problem` where a part of it failed."""

    rows: int = 0
    rejects: int = 0
    problem: str = ""


@dataclass
class Status:
    """One input (or the parts `compute` and `contracts`).

    state          starting, working, idle or degraded
    last_success   when it last finished a look without an error, UTC
    row_count      rows added since the part started; likewise rejects and looks
    lag_count      messages or bytes known to wait; None where nobody says
    error          what is wrong now; '' when nothing is
    unmet_counts   part `contracts`: expectations not met at the last judgement, by severity
    """

    name: str
    kind: str
    state: str = "starting"
    started_at: str = ""
    last_success: str = ""
    look_count: int = 0
    failure_count: int = 0
    row_count: int = 0
    reject_count: int = 0
    lag_count: int | None = None
    lag_s: float | None = None
    busy_s: float = 0.0
    error: str = ""
    timings_s: dict[str, float] = field(default_factory=dict)
    unmet_counts: dict[str, int] = field(default_factory=dict)

    def succeeded(self, now: datetime, rows: int = 0, rejects: int = 0) -> None:
        self.state, self.error = ("working" if rows else "idle"), ""
        self.last_success = now.isoformat()
        self.look_count += 1
        self.row_count += rows
        self.reject_count += rejects

    def failed(self, error: str) -> None:
        self.state, self.error = "degraded", error
        self.failure_count += 1


def save(root: Path, status: Status) -> None:
    """Replace the file in one step; a full disk must not end the part that tells of it."""
    folder = root / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{status.name}.json"
        made = path.with_suffix(".new")
        made.write_text(json.dumps(asdict(status)), encoding="utf-8")
        made.replace(path)
    except OSError:
        return


def load_all(root: Path) -> list[Status]:
    """What every part last said."""
    found = []
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            found.append(Status(**json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue  # half written by a kill, or of another version
    return found
