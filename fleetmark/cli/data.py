"""Commands over data: ingest, sources, sql, tables, files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetmark.cli.shell import (
    ProgressBar,
    command,
    config_option,
    json_option,
    log,
    now,
    open_store,
    settings_of,
    show,
    show_reports,
    store_option,
    told,
)
from fleetmark.errors import InputError

if TYPE_CHECKING:
    from fleetmark.store import Store

_PROMPT_ROWS = 1000


def pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """NAME=VALUE arguments of an option. Raises InputError."""
    found = {}
    for value in values:
        name, sign, content = value.partition("=")
        if not sign or not name:
            raise InputError(f"{option} {value}: write NAME=VALUE")
        found[name] = content
    return found


@command
@click.argument("source")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…")
@click.option("--set", "stated", multiple=True, metavar="NAME=VALUE",
              help="State a fact the file does not hold; `fleetmark sources` lists them.")  # fmt: skip
@store_option
@config_option
@json_option
def ingest(
    source: str, paths: tuple[Path, ...], stated: tuple[str, ...], store: Path | None,
    config: Path | None, json: bool,
) -> int:  # fmt: skip
    """Read log files (or folders of them) with SOURCE, or `auto`, into the store."""
    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.run import FileReport, size_of
    from fleetmark.pipeline.run import ingest as run

    settings = settings_of(config, store)
    total = size_of(paths)
    with open_store(settings, write=True) as opened, ProgressBar(total, "ingest") as on_bytes:
        found = run(opened, load_catalog(), source, paths, pairs(stated, "--set"),
                      settings.sources, now(), on_bytes)  # fmt: skip
        reports = told(found, lambda r: r.path)
    return show_reports(FileReport, reports, json=json)


@command
@json_option
def sources(json: bool) -> None:
    """List the log formats, with the options that `ingest --set` takes."""
    from fleetmark.catalog import load_catalog

    rows = [
        (s.name, ", ".join(t.name for t in s.outputs),
         ", ".join(o.name + (f"={o.default}" if o.default else "") for o in s.options),
         s.doc.splitlines()[0])
        for s in load_catalog().sources.values()
    ]  # fmt: skip
    show(("source", "tables", "options", "format"), rows, json=json)


@command
@click.argument("query", required=False)
@store_option
@config_option
@json_option
def sql(query: str | None, store: Path | None, config: Path | None, json: bool) -> None:
    """Run QUERY on the store, read-only. Without one: a prompt with history and completion.

    Tables: `fleetmark tables`.
    """
    from fleetmark.catalog import load_catalog
    from fleetmark.summary import run_sql, why_empty

    with open_store(settings_of(config, store)) as opened:
        if query is None:
            _prompt(opened, json=json)
            return
        columns, rows = run_sql(opened, query)
        if not rows:
            for line in why_empty(opened, load_catalog(), query):
                log(line)
    show(columns, rows, json=json)


def _prompt(opened: Store, *, json: bool) -> None:
    from fleetmark.catalog import load_catalog
    from fleetmark.prompt import Prompt
    from fleetmark.summary import run_sql

    def run(statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        columns, rows = run_sql(opened, statement, most=_PROMPT_ROWS + 1)
        if len(rows) > _PROMPT_ROWS:
            log(f"the first {_PROMPT_ROWS:,} rows; more with LIMIT, or `fleetmark sql QUERY`")
        return columns, rows[:_PROMPT_ROWS]

    tables = load_catalog().tables.values()
    columns = {t.name: [(c.name, c.type, c.unit) for c in t.columns] for t in tables}
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    Prompt(run, columns, lambda names, rows: show(names, rows, json=json), log).loop(
        state / "fleetmark" / "sql_history"
    )


@command
@click.argument("name", required=False)
@store_option
@config_option
@json_option
def tables(name: str | None, store: Path | None, config: Path | None, json: bool) -> None:
    """List the tables with row count and content hash, or the columns of one."""
    from dataclasses import astuple, fields, replace

    from fleetmark.catalog import load_catalog
    from fleetmark.summary import TableSummary, summarise, table_named

    catalog = load_catalog()
    if name is not None:
        table = table_named(catalog, name)
        rows = [(c.name, c.type, c.unit, c.name in table.grain, c.doc) for c in table.columns]
        show(("column", "type", "unit", "grain", "doc"), rows, json=json)
        return
    with open_store(settings_of(config, store)) as opened:
        summaries = summarise(opened, catalog.tables.values())
    if not json:
        summaries = [replace(s, doc=catalog.tables[s.name].brief) for s in summaries]
    show([f.name for f in fields(TableSummary)], [astuple(s) for s in summaries], json=json)


@command
@click.argument("table")
@store_option
@config_option
@json_option
def files(table: str, store: Path | None, config: Path | None, json: bool) -> None:
    """List the live Parquet files of TABLE: they hold its rows, whatever reads them."""
    from fleetmark.catalog import load_catalog
    from fleetmark.summary import table_named

    table_named(load_catalog(), table)
    with open_store(settings_of(config, store)) as opened:
        rows = opened.files(table)
    show(("data_file", "delete_file"), rows, json=json)
