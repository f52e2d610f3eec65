"""Write `json/NAME.json` for every dashboard and the alert rules, or with `--check` say what is out of date."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

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
    if parser.parse_args().check:
        for path in stale():
            sys.stderr.write(f"{path} is out of date: run `python -m fleetmark.dashboards`\n")
        return 1 if stale() else 0
    for path, text in texts().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
