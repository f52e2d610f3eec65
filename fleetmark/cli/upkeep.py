"""Commands of upkeep: doctor, tend, backup."""

from __future__ import annotations

from pathlib import Path

import click

from fleetmark.cli.shell import (
    command,
    config_option,
    json_option,
    now,
    open_store,
    settings_of,
    show,
    store_option,
)


@command
@store_option
@config_option
@json_option
def doctor(store: Path | None, config: Path | None, json: bool) -> int:
    """Check the store: files, contracts, gaps, lag, rejects, disk. Exit code 1 where something is bad."""
    from dataclasses import astuple, fields

    from fleetmark.catalog import load_catalog
    from fleetmark.upkeep.doctor import Check, examine

    with open_store(settings_of(config, store)) as opened:
        checks = examine(opened, load_catalog(), now())
    show([f.name for f in fields(Check)], [astuple(c) for c in checks], json=json)
    return 1 if any(check.state == "bad" for check in checks) else 0


@command
@store_option
@config_option
@json_option
def tend(store: Path | None, config: Path | None, json: bool) -> None:
    """Merge small files, drop days past [run] retention_days, remove what nothing refers to."""
    from dataclasses import astuple, fields

    from fleetmark.catalog import load_catalog
    from fleetmark.upkeep.tend import Tended
    from fleetmark.upkeep.tend import tend as run

    settings = settings_of(config, store)
    keep = settings.run.get("retention_days", {})
    with open_store(settings, write=True) as opened:
        done = run(opened, load_catalog(), keep, now())
    show([f.name for f in fields(Tended)], [astuple(done)], json=json)


@command
@click.argument("folder", type=click.Path(path_type=Path))
@store_option
@config_option
@json_option
def backup(folder: Path, store: Path | None, config: Path | None, json: bool) -> None:
    """Copy the store as it is now into FOLDER, which is then a store; a second time only what is new."""
    from dataclasses import astuple, fields

    from fleetmark.upkeep.backup import Copied, back_up

    with open_store(settings_of(config, store)) as opened:
        done = back_up(opened, folder)
    show([f.name for f in fields(Copied)], [astuple(done)], json=json)
