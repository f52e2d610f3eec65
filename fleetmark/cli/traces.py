"""The command that checks a download of a public trace against what was published about it."""

from __future__ import annotations

from pathlib import Path

import click

from fleetmark.cli.shell import command, json_option, now, show


@command
@click.argument("name")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@json_option
def check_trace(name: str, path: Path, json: bool) -> int:
    """Recompute published figures from the trace NAME (openb, helios, acme, philly) at PATH.

    PATH is the download: a folder that holds its files somewhere, or one file. Every row states the definition;
    verdict: match, differs, known_difference (the release itself differs from the paper), no_data. Exit code 1 when a figure differs.
    """
    from fleetmark.trace_check.check import COLUMNS, check

    judged = check(name, path, now())
    show(COLUMNS, judged.rows(), json=json)
    return 1 if "differs" in set(judged["verdict"]) else 0
