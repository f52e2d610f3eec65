"""Write `json/NAME.json` for every dashboard and the alert rules, or with `--check` say what is out of date."""

from __future__ import annotations

import argparse
import importlib
import sys
from datetime import UTC, datetime
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from . import _pictures
from ._alerts import rules_text

FOLDER = Path(__file__).parent


def texts() -> dict[Path, str]:
    """The JSON of every dashboard and the alert rules, by the file they belong in."""
    names = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))
    encoder = JSONEncoder(sort_keys=True, indent=2)
    boards = {
        FOLDER / "json" / f"{name}.json": encoder.encode(
            importlib.import_module(f"fleetmark.dashboards.{name}").build().build()
        )
        + "\n"
        for name in names
    }
    return {**boards, FOLDER / "provisioning" / "alerting" / "rules.yaml": rules_text()}


def stale() -> list[Path]:
    """Files that are not what the builders make: changed, missing or left over."""
    wanted = texts()
    changed = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    return changed + sorted(set((FOLDER / "json").glob("*.json")) - set(wanted))


def main() -> int:
    """0 when done or current, 1 when `--check` found a difference."""
    parser = argparse.ArgumentParser(prog="python -m fleetmark.dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    pictures = parser.add_subparsers(dest="command").add_parser(
        "pictures", help="draw each dashboard with Grafana's panels", description=_pictures.__doc__
    )
    pictures.add_argument("--url", default="http://127.0.0.1:8321", help="address of the API")
    pictures.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder")
    pictures.add_argument("--from", dest="start", type=moment, required=True, help="ISO 8601, UTC")
    pictures.add_argument("--to", dest="end", type=moment, required=True, help="ISO 8601, UTC")
    asked = parser.parse_args()
    if asked.command == "pictures":
        over = _pictures.Range(asked.start, asked.end)
        for path in _pictures.draw(asked.url, asked.out, over):
            sys.stdout.write(f"{path}\n")
        return 0
    if asked.check:
        for path in stale():
            sys.stderr.write(f"{path} is out of date: run `python -m fleetmark.dashboards`\n")
        return 1 if stale() else 0
    for path, text in texts().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def moment(text: str) -> datetime:
    """A time in UTC, as ISO 8601 writes it."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


if __name__ == "__main__":
    sys.exit(main())
