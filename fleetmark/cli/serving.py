"""Commands for people to look at: serve, demo, docs."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import which

import click

from fleetmark.cli.shell import (
    command,
    config_option,
    log,
    now,
    open_store,
    settings_of,
    store_option,
)


@command
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535))
@store_option
@config_option
def serve(host: str, port: int, store: Path | None, config: Path | None) -> None:
    """Serve the API and the page on this machine."""
    from fleetmark.serve import serve as run

    settings = settings_of(config, store)
    open_store(settings).connection.close()
    run(settings, host, port, lambda url: log(f"page {url}/  API docs {url}/docs  (Ctrl-C ends)"))


@command
@click.option("--exit", "stop", is_flag=True, help="Stop after computing; do not serve.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535))
@store_option
@config_option
def demo(stop: bool, host: str, port: int, store: Path | None, config: Path | None) -> None:
    """Ingest the sample logs and a simulated week, compute, detect, serve."""
    from fleetmark.demo import prepare, report
    from fleetmark.serve import serve as run

    settings = settings_of(config, store)
    prepare(settings, now(), log)
    click.echo(report(settings, "fleetmark" if which("fleetmark") else sys.argv[0]))
    if not stop:
        run(settings, host, port,
            lambda url: click.echo(f"\nPage      {url}/\nAPI docs  {url}/docs\n(Ctrl-C ends)"))  # fmt: skip


@command
@click.option("--check", is_flag=True, help="Compare instead of writing; exit 1 when they differ.")
def docs(check: bool) -> int:
    """Write docs/tables.md, docs/detectors.md and the dashboards' JSON (in a checkout)."""
    from fleetmark.docs import write_docs

    stale = write_docs(check=check)
    for path in stale:
        log(f"{path} {'differs: run `fleetmark docs`' if check else 'written'}")
    return 1 if check and stale else 0
