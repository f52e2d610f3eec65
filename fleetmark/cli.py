"""The `fleetmark` command: read arguments and settings, call the core, print. No logic here.

Data goes to stdout, the log to stderr. Exit codes: 0 fine, 1 problems found (rejected lines,
failed deliveries, a query that fails), 2 wrong use. Imports are inside the commands, so that
`fleetmark --help` does not wait for DuckDB and Polars.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetmark import __version__
from fleetmark.errors import FleetmarkError, InputError, SettingsError

if TYPE_CHECKING:
    from fleetmark.settings import Settings
    from fleetmark.store import Store

Command = Callable[..., int | None]


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def _log(message: str) -> None:
    click.echo(message, err=True)


def _settings(config: Path | None, store: Path | None) -> Settings:
    from fleetmark.settings import load_settings

    return load_settings(os.environ, config=config, store=store)


def _open(settings: Settings, *, write: bool = False) -> Store:
    from fleetmark.catalog import load_catalog
    from fleetmark.store import Store

    store = Store(settings.store, read_only=not write, memory_mb=settings.memory_mb)
    if write:
        store.ensure(load_catalog().tables.values())
    return store


def _print(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, json: bool) -> None:
    from fleetmark.output import as_json, as_text

    click.echo(as_json(columns, rows) if json else as_text(columns, rows))


def command(function: Command) -> click.Command:
    """A sub-command with the common options; errors become a line on stderr and an exit code."""

    @wraps(function)
    def run(**values: Any) -> None:  # noqa: ANN401 - click passes what the options parsed
        try:
            code = function(**values) or 0
        except (InputError, SettingsError) as error:
            _log(f"fleetmark: {error}")
            code = 2
        except FleetmarkError as error:
            _log(f"fleetmark: {error}")
            code = 1
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        except KeyboardInterrupt:
            _log("fleetmark: stopped; what was committed stays, run it again to go on")
            code = 130
        sys.exit(code)

    made = click.command()(run)
    name = made.name or ""
    made.name = name.removesuffix("-command").removesuffix("_command")
    return made


store_option = click.option(
    "--store", type=click.Path(path_type=Path), help="Folder of the store (FLEETMARK_STORE)."
)
config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Settings file (FLEETMARK_CONFIG)."
)
json_option = click.option("--json", is_flag=True, help="Print a JSON list of objects.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fleetmark")
def main() -> None:
    """Read what a GPU fleet logs; know its useful work, what drags, and whether weights leave."""


def _pairs(values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, sign, content = value.partition("=")
        if not sign or not name:
            raise InputError(f"--set {value}: write NAME=VALUE")
        pairs[name] = content
    return pairs


@main.add_command
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
    from dataclasses import astuple, fields

    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.run import FileReport, size_of
    from fleetmark.pipeline.run import ingest as run

    settings = _settings(config, store)
    total = size_of(paths)
    reports = []
    with _open(settings, write=True) as opened, _bar(total, "ingest") as on_bytes:
        for report in run(opened, load_catalog(), source, paths, _pairs(stated),
                          settings.sources, _now(), on_bytes):  # fmt: skip
            reports.append(report)
            if report.message:
                _log(f"{report.path}: {report.message}")
    _print([f.name for f in fields(FileReport)], [astuple(r) for r in reports], json=json)
    return 0 if all(report.fine for report in reports) else 1


class _Bar:
    """A progress bar on stderr when it is a terminal; nothing otherwise."""

    def __init__(self, total: int, label: str) -> None:
        self._bar = click.progressbar(
            length=total, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
        )

    def __enter__(self) -> Callable[[int], None]:
        return self._bar.__enter__().update

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__(None, None, None)


def _bar(total: int, label: str) -> _Bar:
    return _Bar(total, label)


@main.add_command
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
    _print(("source", "tables", "options", "format"), rows, json=json)


@main.add_command
@command
@store_option
@config_option
@json_option
def build(store: Path | None, config: Path | None, json: bool) -> None:
    """Compute the models whose inputs have changed."""
    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.build import build as run

    settings = _settings(config, store)
    catalog = load_catalog()
    with _open(settings, write=True) as opened, _bar(len(catalog.models), "build") as on_step:
        built = run(opened, catalog, settings.params, lambda _: on_step(1))
    rows = [(b.name, b.ranges, b.changed_days) for b in built]
    _print(("model", "ranges_computed", "days_changed"), rows, json=json)


@main.add_command
@command
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option("--webhook", metavar="URL", help="Also deliver new findings to this webhook.")
@store_option
@config_option
@json_option
def detect(
    ids: tuple[str, ...], webhook: str | None, store: Path | None, config: Path | None, json: bool
) -> int:
    """Run the detectors, and deliver findings to the webhooks of the settings."""
    from fleetmark.alerts import deliver
    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.detect import detect as run
    from fleetmark.settings import webhook as checked

    settings = _settings(config, store)
    channels = [*settings.webhooks, *([checked("webhook", webhook)] if webhook else [])]
    catalog = load_catalog()
    with _open(settings, write=True) as opened:
        run(opened, catalog, settings.params, _now(), ids)
        deliveries = deliver(opened, catalog, channels, _now())
        rows = opened.connection.execute(
            "SELECT detector, status, reason, finding_count FROM lake.detector_status ORDER BY ALL"
        ).fetchall()
    for sent in deliveries:
        _log(
            f"{sent.channel}: {sent.delivered} delivered, {sent.failed} failed {sent.error}".strip()
        )
    _print(("detector", "status", "reason", "finding_count"), rows, json=json)
    return 1 if any(sent.failed for sent in deliveries) else 0


@main.add_command
@command
@click.option("--domain", type=click.Choice(["performance", "security"]))
@store_option
@config_option
@json_option
def findings(domain: str | None, store: Path | None, config: Path | None, json: bool) -> None:
    """List the findings, worst first."""
    from fleetmark.detector import FINDING
    from fleetmark.summary import worst_first

    with _open(_settings(config, store)) as opened:
        rows = worst_first(opened, domain)
    if json:
        _print(FINDING.column_names, rows, json=True)
        return
    shown = ("severity", "detector", "kind", "detected_at", "cluster", "node", "rank", "job_id",
             "principal", "checkpoint", "lower", "upper")  # fmt: skip
    picked = [FINDING.column_names.index(name) for name in shown]
    _print(shown, [[row[n] for n in picked] for row in rows], json=False)


@main.add_command
@command
@click.argument("query")
@store_option
@config_option
@json_option
def sql(query: str, store: Path | None, config: Path | None, json: bool) -> None:
    """Run QUERY on the store, read-only. Tables: `fleetmark tables`."""
    from fleetmark.summary import run_sql

    with _open(_settings(config, store)) as opened:
        columns, rows = run_sql(opened, query)
    _print(columns, rows, json=json)


@main.add_command
@command
@click.argument("name", required=False)
@store_option
@config_option
@json_option
def tables(name: str | None, store: Path | None, config: Path | None, json: bool) -> None:
    """List the tables with row count and content hash, or the columns of one."""
    from dataclasses import astuple, fields

    from fleetmark.catalog import load_catalog
    from fleetmark.summary import TableSummary, summarise, table_named

    catalog = load_catalog()
    if name is not None:
        table = table_named(catalog, name)
        rows = [(c.name, c.type, c.unit, c.name in table.grain, c.doc) for c in table.columns]
        _print(("column", "type", "unit", "grain", "doc"), rows, json=json)
        return
    with _open(_settings(config, store)) as opened:
        summaries = summarise(opened, catalog.tables.values())
    _print([f.name for f in fields(TableSummary)], [astuple(s) for s in summaries], json=json)


@main.add_command
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
    with _open(_settings(config, store)) as opened:
        rows = opened.files(table)
    _print(("data_file", "delete_file"), rows, json=json)


@main.add_command
@command
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8321, show_default=True, type=click.IntRange(0, 65535))
@store_option
@config_option
def serve(host: str, port: int, store: Path | None, config: Path | None) -> None:
    """Serve the API and the page on this machine."""
    from fleetmark.serve import serve as run

    settings = _settings(config, store)
    _open(settings).connection.close()
    run(settings, host, port, lambda url: _log(f"page {url}/  API docs {url}/docs  (Ctrl-C ends)"))


@main.add_command
@command
@click.argument("scenario")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option("--seed", default=1, show_default=True)
@click.option("--nodes", default=2, show_default=True, type=click.IntRange(1))
@click.option("--days", default=7, show_default=True, type=click.IntRange(1))
def simulate(scenario: str, out: Path, seed: int, nodes: int, days: int) -> None:
    """Write raw logs of a made-up fleet to OUT/raw, and what is true of it to OUT/truth."""
    from importlib import import_module

    import_module("fleetmark.simulate").run(scenario, out, seed, nodes, days)
    _log(f"wrote {out}/raw and {out}/truth")


@main.add_command
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

    settings = _settings(config, store)
    prepare(settings, _now(), _log)
    click.echo(report(settings))
    if not stop:
        run(settings, host, port,
            lambda url: click.echo(f"\nPage      {url}/\nAPI docs  {url}/docs\n(Ctrl-C ends)"))  # fmt: skip


@main.add_command
@command
@click.argument("topic", required=False)
@click.option("--seed", default=1001, show_default=True, help="Never one used for tuning.")
@click.option("--write", is_flag=True, help="Write docs/accuracy.md (all topics).")
@json_option
def accuracy(topic: str | None, seed: int, write: bool, json: bool) -> None:
    """Recompute the figures of TOPIC (gpu, rank, mfu, planner, security, speed) against the aims."""
    from dataclasses import astuple, fields

    from fleetmark.accuracy import Figure, measure, write_page

    if write:
        write_page(seed)
        return
    figures = measure(topic, seed)
    _print([f.name for f in fields(Figure)], [astuple(f) for f in figures], json=json)


@main.add_command
@command
@click.option("--check", is_flag=True, help="Compare instead of writing; exit 1 when they differ.")
def docs(check: bool) -> int:
    """Write docs/tables.md, docs/detectors.md and the dashboards' JSON (in a checkout)."""
    from fleetmark.docs import write_docs

    stale = write_docs(check=check)
    for path in stale:
        _log(f"{path} {'differs: run `fleetmark docs`' if check else 'written'}")
    return 1 if check and stale else 0
