"""Commands of live operation: run, check-config."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

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
from fleetmark.errors import InputError, SettingsError

if TYPE_CHECKING:
    from threading import Event

    from fleetmark.catalog import Catalog
    from fleetmark.live.inputs import Input, Run
    from fleetmark.settings import Settings


def event_log(event: str, **fields: object) -> None:
    """One line of JSON on stderr: when, what, and what it is about."""
    from fleetmark.output import json_line

    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    click.echo(json_line({"ts": at, "event": event, **fields}), err=True)


@command
@click.option(
    "--part",
    help="Run only this part: inputs, receive, compute, contracts, pull:NAME or kafka:NAME.",
)
@click.option("--supervised", is_flag=True, hidden=True, help="End when standard input closes.")
@store_option
@config_option
def run(part: str | None, supervised: bool, store: Path | None, config: Path | None) -> None:
    """Read what the settings name as [[inputs]], compute and alert, until stopped.

    Each part is a process of its own under this one, and is started again when it ends.
    """
    from threading import Event

    from fleetmark.catalog import load_catalog
    from fleetmark.live.supervise import Supervisor, end_with_stdin, on_signal

    settings = settings_of(config, store)
    catalog = load_catalog()
    inputs, run_settings = _checked(settings, catalog)
    stop = Event()
    on_signal(stop)
    if part is None:
        open_store(settings, write=True).connection.close()
        base = [sys.executable, "-m", "fleetmark.cli", "run", "--supervised"]
        base += ["--config", str(settings.path), "--store", str(settings.store)]
        commands = {name: [*base, "--part", name] for name in _parts(inputs, run_settings)}
        every = {"contracts": run_settings.contracts_interval_s}
        Supervisor(commands, event_log, stop, every).run()
        return
    if supervised:
        end_with_stdin(stop)
    _run_part(part, settings, catalog, inputs, run_settings, stop)


def _parts(inputs: list[Input], run_settings: Run) -> list[str]:
    """Every part. Contracts are judged where their extra is installed."""
    from importlib.util import find_spec

    from fleetmark.live.inputs import Files, Kafka, Webhook

    files = [one for one in inputs if isinstance(one, Files | Webhook)]
    apart = [
        f"{'kafka' if isinstance(one, Kafka) else 'pull'}:{one.name}"
        for one in inputs
        if one not in files
    ]
    followed = ["inputs"] if files else []
    can_judge = run_settings.contracts_interval_s and find_spec("great_expectations")
    judged = ["contracts"] if can_judge else []
    return ["receive", *followed, *apart, "compute", *judged]


# Reading goes before computing where both want the processor: what is not read yet cannot be computed.
_COMPUTE_NICENESS = 5


def _run_part(
    part: str, settings: Settings, catalog: Catalog, inputs: list[Input], run_settings: Run,
    stop: Event,
) -> None:  # fmt: skip
    from fleetmark.live import parts
    from fleetmark.live.inputs import Files, Kafka, Webhook

    there = _parts(inputs, run_settings)
    if part not in there:
        raise InputError(f"--part {part}: there are {', '.join(there)}")
    if part == "receive":
        hooks = [one for one in inputs if isinstance(one, Webhook)]
        parts.receive(settings, hooks, run_settings, now, stop)
        return
    if part in ("compute", "contracts"):
        os.nice(_COMPUTE_NICENESS)
    with open_store(settings, write=True) as opened:
        if part == "compute":
            parts.compute(opened, catalog, settings, run_settings, now, stop, event_log)
        elif part == "contracts":
            parts.judge(opened, catalog, settings, now, event_log)
        elif part == "inputs":
            files = [one for one in inputs if isinstance(one, Files | Webhook)]
            parts.follow(opened, files, catalog, settings, now, stop, event_log)
        else:
            one = next(o for o in inputs if o.name == part.partition(":")[2])
            if isinstance(one, Kafka):
                parts.consume(opened, one, catalog, settings, now, stop, event_log)
            else:
                parts.pull(opened, one, catalog, settings, now, stop, event_log)


def _checked(settings: Settings, catalog: Catalog) -> tuple[list[Input], Run]:
    """Inputs and [run] without a mistake. Raises SettingsError naming all there are."""
    from fleetmark.live.inputs import inputs_of, run_of

    if settings.path is None:
        raise SettingsError(
            "no settings: write fleetmark.toml with [[inputs]], or name it with --config "
            "(docs/operations.md shows one)"
        )
    inputs, wrong = inputs_of(settings.inputs, catalog, settings.path)
    run_settings, also = run_of(settings.run, catalog, settings.path)
    if wrong or also:
        raise SettingsError("\n".join([*wrong, *also]))
    return inputs, run_settings


@command
@store_option
@config_option
def check_config(store: Path | None, config: Path | None) -> int:
    """Say what is wrong with the settings, all of it, and what they leave unsaid; nothing is opened or sent."""
    from fleetmark.catalog import load_catalog
    from fleetmark.live.check import hints, mistakes

    catalog = load_catalog()
    found = mistakes(catalog, os.environ, config, store)
    for mistake in found:
        log(mistake)
    if not found:
        for hint in hints(catalog, os.environ, config, store):
            log(hint)
        click.echo("the settings are right")
    return 2 if found else 0
