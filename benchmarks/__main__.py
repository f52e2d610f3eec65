"""`python -m fleetmark.benchmarks`: measure workloads, print the figures, keep them."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from .results import goal_table, keep, stamped, work_table
from .rounds import compare, fresh
from .workload import REFERENCE, find


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scale", default=0.25, show_default=True, help="Share of the full input size.")
@click.option("--peer-dir", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder with packages of peers (pip install --target) that are not installed here.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Results as a JSON list on stdout.")
@click.option("--write", is_flag=True, help="Keep the results, and write docs/benchmarks.md.")
def main(
    names: tuple[str, ...], scale: float, peer_dir: Path | None, as_json: bool, write: bool
) -> None:
    """Measure all workloads, or those named. Exits with 1 when a required figure is missed."""
    found = find()
    own = {name: w for name, w in found.items() if name != REFERENCE and w.peer is None}
    if unknown := set(names) - set(own):
        raise click.UsageError(
            f"no workload named {', '.join(sorted(unknown))}; there are {', '.join(own)}"
        )
    fresh(
        found["catalog_start"], Path()
    )  # so that modules are compiled before anything is measured
    rows, met = [], True
    for name in names or own:
        click.echo(f"{name}: {own[name].doc}", err=True)
        with tempfile.TemporaryDirectory(prefix="fleetmark-bench-") as folder:
            result = compare(own[name], found, Path(folder), scale, peer_dir)
        rows.append(stamped(result, f"{datetime.now(UTC):%Y-%m-%d}"))
        met = met and result.met
        if write:
            keep(rows[-1], own)
    click.echo(
        json.dumps(rows, indent=1) if as_json else f"{goal_table(rows)}\n\n{work_table(rows)}"
    )
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
