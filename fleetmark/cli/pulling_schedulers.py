"""`fleetmark pull slurm` and `fleetmark pull kubernetes`."""

from __future__ import annotations

from pathlib import Path

import click

from fleetmark.cli.data import pairs
from fleetmark.cli.pulling import time_of, token_of
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


@command
@click.argument("url", required=False)
@click.option("--from", "start", metavar="TIME", help="UTC. Default: where the last pull ended.")
@click.option("--set", "stated", multiple=True, metavar="NAME=VALUE",
              help="Option of the sources: cluster.")  # fmt: skip
@click.option(
    "--slurm-cluster", metavar="NAME", help="Of several clusters that share a database: -M."
)
@click.option("--user", metavar="NAME", help="slurmrestd: the user whose token it is.")
@click.option("--token-file", type=click.Path(path_type=Path), help="slurmrestd: file with a JWT.")
@store_option
@config_option
@json_option
def slurm(
    url: str | None, start: str | None, stated: tuple[str, ...], slurm_cluster: str | None,
    user: str | None, token_file: Path | None, store: Path | None, config: Path | None, json: bool,
) -> int:  # fmt: skip
    """Fetch jobs, nodes and the queue from Slurm: from slurmrestd at URL, or by its commands here.

    One call per history from where the last pull ended, and one look at the state now: run it every few
    minutes. Attempts of requeued jobs are kept (sacct -D).
    """
    import os

    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.pull_answer import PartReport
    from fleetmark.pipeline.pull_slurm import pull_slurm
    from fleetmark.pipeline.slurm import Slurm, SlurmCommands, SlurmRest

    settings = settings_of(config, store)
    cluster: Slurm = SlurmCommands(os.environ, slurm_cluster)
    if url is not None:
        sent = {"X-SLURM-USER-NAME": user} if user else {}
        if token_file is not None:
            sent["X-SLURM-USER-TOKEN"] = token_of(token_file)
        cluster = SlurmRest(url, sent)
    begin = None if start is None else time_of(start, "--from")
    with open_store(settings, write=True) as opened:
        found = pull_slurm(opened, load_catalog(), cluster, pairs(stated, "--set"), begin, now())
        reports = told(found, lambda r: r.what)
    return show_reports(PartReport, reports, json=json)


@command
@click.option("--context", metavar="NAME", help="Of kubeconfig. Default: the current one.")
@click.option("--set", "stated", multiple=True, metavar="NAME=VALUE",
              help="Option of the source kubernetes: cluster.")  # fmt: skip
@store_option
@config_option
@json_option
def kubernetes(
    context: str | None, stated: tuple[str, ...], store: Path | None, config: Path | None, json: bool
) -> int:  # fmt: skip
    """Fetch pods, jobs, nodes, events and queues from a Kubernetes cluster.

    The account needs get, list and watch on what it shall fetch. Changes since the last pull are asked
    for by resource version: run it every few minutes, events are kept for an hour.
    """
    from contextlib import closing

    from fleetmark.catalog import load_catalog
    from fleetmark.pipeline.kube import Kubernetes
    from fleetmark.pipeline.pull_answer import PartReport
    from fleetmark.pipeline.pull_kubernetes import SOURCE, pull_kubernetes

    settings = settings_of(config, store)
    options = settings.options(SOURCE, pairs(stated, "--set"))
    with open_store(settings, write=True) as opened, closing(Kubernetes(context)) as cluster:
        found = pull_kubernetes(opened, load_catalog(), cluster, options, now())
        reports = told(found, lambda r: r.what)
    return show_reports(PartReport, reports, json=json)
