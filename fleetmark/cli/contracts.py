"""Command of data contracts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from fleetmark.cli.pulling import time_of
from fleetmark.cli.shell import (
    command,
    config_option,
    json_option,
    log,
    now,
    open_store,
    settings_of,
    show,
    store_option,
)

if TYPE_CHECKING:
    from fleetmark.contracts.profile import By


@command
@click.argument("names", nargs=-1, metavar="[TABLE…]")
@click.option("--by", type=click.Choice(["hour", "file"]), default="hour", show_default=True,
              help="Judge closed hours of event time, or files as they were read.")  # fmt: skip
@click.option("--from", "start", metavar="TIME", help="UTC. Default: on from the last judgement.")
@click.option(
    "--docs", type=click.Path(path_type=Path), metavar="DIR", help="Write Data Docs (HTML)."
)
@store_option
@config_option
@json_option
def contracts(
    names: tuple[str, ...], by: str, start: str | None, docs: Path | None, store: Path | None,
    config: Path | None, json: bool,
) -> int:  # fmt: skip
    """Judge what was stored against its contracts with Great Expectations; print what failed.

    Results of all stay in the table contract_result. Exit code 1 where rows break their contract
    (severity error); warnings do not change it.
    """
    from fleetmark.catalog import load_catalog
    from fleetmark.contracts.check import check
    from fleetmark.summary import table_named

    catalog = load_catalog()
    tables = [table_named(catalog, name) for name in names]
    begin = None if start is None else time_of(start, "--from")
    with open_store(settings_of(config, store), write=True) as opened:
        checked = check(opened, catalog, tables, cast("By", by), begin, now(), docs)
    failed = checked.failed
    show(failed.columns, failed.rows(), json=json)
    log(f"{checked.results.height} judged of {checked.table_count} tables, {failed.height} failed")
    if checked.docs is not None:
        log(f"Data Docs: {checked.docs}")
    return 0 if checked.fine else 1
