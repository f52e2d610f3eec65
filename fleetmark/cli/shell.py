"""What all commands share: options, settings, opening the store, printing, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from fleetmark.errors import FleetmarkError, InputError, SettingsError

if TYPE_CHECKING:
    from fleetmark.settings import Settings
    from fleetmark.store import Store

Command = Callable[..., int | None]
STOPPED = 130

store_option = click.option(
    "--store", type=click.Path(path_type=Path), help="Folder of the store (FLEETMARK_STORE)."
)
config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Settings file (FLEETMARK_CONFIG)."
)
json_option = click.option("--json", is_flag=True, help="Print a JSON list of objects.")


def command(function: Command, cls: type[click.Command] = click.Command) -> click.Command:
    """A sub-command whose errors become a line on stderr and an exit code."""

    @wraps(function)
    def run(**values: Any) -> None:  # noqa: ANN401 - click passes what the options parsed
        try:
            code = function(**values) or 0
        except (InputError, SettingsError) as error:
            code = _fail(error, 2)
        except BrokenPipeError:
            # Whoever read our output has gone; Python must not complain when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        except (FleetmarkError, OSError) as error:
            code = _fail(error, 1)
        except KeyboardInterrupt:
            code = _fail("stopped; what was committed stays, run it again to go on", STOPPED)
        sys.exit(code)

    return click.command(cls=cls)(run)


def _fail(message: object, code: int) -> int:
    log(f"fleetmark: {message}")
    return code


def now() -> datetime:
    """The time, UTC without zone, in whole seconds."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def log(message: str) -> None:
    """A message on stderr."""
    from fleetmark.output import visible

    click.echo("\n".join(map(visible, message.split("\n"))), err=True)


def settings_of(config: Path | None, store: Path | None) -> Settings:
    """The settings, with what the command line says on top."""
    from fleetmark.settings import load_settings

    return load_settings(os.environ, config=config, store=store)


def open_store(settings: Settings, *, write: bool = False) -> Store:
    """The store; for writing it is made, and given missing tables, first."""
    from fleetmark.catalog import load_catalog
    from fleetmark.store import Store

    store = Store(
        settings.store, place=settings.lake, read_only=not write, memory_mb=settings.memory_mb
    )
    if write:
        store.ensure(load_catalog().tables.values())
    return store


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, json: bool) -> None:
    """Rows on stdout."""
    from fleetmark.output import as_json, as_text

    click.echo(as_json(columns, rows) if json else as_text(columns, rows))


class Report(Protocol):
    """What became of one file, slice or part."""

    @property
    def message(self) -> str: ...
    @property
    def fine(self) -> bool: ...


R = TypeVar("R", bound=Report)


def told(reports: Iterable[R], name: Callable[[R], str]) -> list[R]:
    """All reports; what is wrong with one is said as soon as it comes."""
    found = []
    for report in reports:
        found.append(report)
        if report.message:
            log(f"{name(report)}: {report.message}")
    return found


def show_reports(kind: type[R], reports: Sequence[R], *, json: bool) -> int:
    """Reports of a dataclass as rows on stdout; the exit code."""
    from dataclasses import fields

    columns = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # reports are dataclasses
    show(columns, [[getattr(r, column) for column in columns] for r in reports], json=json)
    return 0 if all(report.fine for report in reports) else 1


class ProgressBar:
    """A progress bar on stderr when it is a terminal; nothing otherwise."""

    def __init__(self, total: int, label: str) -> None:
        self._bar = click.progressbar(
            length=total, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
        )

    def __enter__(self) -> Callable[[int], None]:
        return self._bar.__enter__().update

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__(None, None, None)
