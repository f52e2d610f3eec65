"""Commands that fetch from services: pull."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from fleetmark.cli.data import pairs
from fleetmark.cli.shell import (
    command,
    config_option,
    json_option,
    now,
    open_store,
    settings_of,
    show_reports,
    store_option,
    told,
)
from fleetmark.errors import InputError


@click.group()
def pull() -> None:
    """Fetch telemetry, runs and scheduler records from a service into the store."""


def time_of(text: str, option: str) -> datetime:
    """A time in UTC that an option states. Raises InputError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: write 2026-03-20 or 2026-03-20T12:23:43Z") from None
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def token_of(path: Path) -> str:
    """A token from a file. Raises InputError."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no token"
        raise InputError(f"--token-file {path}: {reason}") from None


@command
@click.argument("url")
@click.option("--from", "start", metavar="TIME", help="UTC. Default: where the last pull ended.")
@click.option("--to", "end", metavar="TIME", help="UTC. Default: a minute ago.")
@click.option(
    "--source",
    type=click.Choice(["prometheus_read", "serving_read"]),
    default="prometheus_read",
    show_default=True,
    help="What is asked for: GPUs, or inference servers.",
)
@click.option(
    "--match", "selector", metavar="SELECTOR", help="Series. Default: the source's metrics."
)
@click.option("--set", "stated", multiple=True, metavar="NAME=VALUE",
              help="Option of the source: cluster, node_label; cluster, replica, gpu_count.")  # fmt: skip
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a bearer token.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Also send this.")
@click.option("--again", is_flag=True, help="Also ask for times that were pulled before.")
@store_option
@config_option
@json_option
def prometheus(
    url: str, start: str | None, end: str | None, source: str, selector: str | None,
    stated: tuple[str, ...], token_file: Path | None, headers: tuple[str, ...], again: bool,
    store: Path | None, config: Path | None, json: bool,
) -> int:  # fmt: skip
    """Fetch the raw samples that the Prometheus at URL holds, by remote read.

    All signals of a GPU and time must be fetched at once: a row once written is not added to. User and
    password may stand in ~/.netrc, certificate authorities in REQUESTS_CA_BUNDLE.
    """
    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.prometheus import Prometheus
    from fleetmark.pipeline.pull import SELECTORS, SETTLE, Pull, SliceReport, pull_prometheus

    settings = settings_of(config, store)
    sent = pairs(headers, "--header")
    if token_file is not None:
        sent["Authorization"] = f"Bearer {token_of(token_file)}"
    options = settings.options(source, pairs(stated, "--set"))
    begin = None if start is None else time_of(start, "--from")
    until = now() - SETTLE if end is None else time_of(end, "--to")
    if until > now():
        raise InputError(f"--to {end} lies in the future")
    with open_store(settings, write=True) as opened, Prometheus(url, sent) as server:
        found = pull_prometheus(
            opened, load_catalog(), Pull(server, selector or SELECTORS[source], options, source), begin,
            until, now(), again=again,
        )  # fmt: skip
        reports = told(found, lambda r: f"{r.start_ts} to {r.end_ts}")
    return show_reports(SliceReport, reports, json=json)


@command
@click.argument("url")
@click.option("--experiment", "experiments", multiple=True, metavar="NAME", help="Default: all.")
@click.option("--from", "start", metavar="TIME", help="UTC: runs that began then or later.")
@click.option("--set", "stated", multiple=True, metavar="NAME=VALUE",
              help="Option of the source mlflow: cluster, job_tag, attempt.")  # fmt: skip
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a bearer token.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Also send this.")
@store_option
@config_option
@json_option
def mlflow(
    url: str, experiments: tuple[str, ...], start: str | None, stated: tuple[str, ...],
    token_file: Path | None, headers: tuple[str, ...], store: Path | None, config: Path | None,
    json: bool,
) -> int:  # fmt: skip
    """Fetch the runs of the MLflow tracking server at URL: shapes of models, steps, starts and ends.

    Pull as often as you like: of a run that goes on only what is new is added. User and password may
    stand in ~/.netrc, certificate authorities in REQUESTS_CA_BUNDLE.
    """
    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.mlflow import SOURCE, Mlflow, RunReport, pull_mlflow

    settings = settings_of(config, store)
    sent = pairs(headers, "--header")
    if token_file is not None:
        sent["Authorization"] = f"Bearer {token_of(token_file)}"
    options = settings.options(SOURCE, pairs(stated, "--set"))
    begin = None if start is None else time_of(start, "--from")
    with open_store(settings, write=True) as opened, Mlflow(url, sent) as server:
        reports = list(
            pull_mlflow(opened, load_catalog(), server, options, experiments, begin, now())
        )
    return show_reports(RunReport, reports, json=json)


pull.add_command(prometheus)
pull.add_command(mlflow)
