"""What `--engine` may name: where the work of a build is done."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module

from fleetmark.errors import InputError
from fleetmark.pipeline.processes import Processes
from fleetmark.pipeline.spread import Site, Workers

LOCAL = "local"
FORMS = "local, processes, processes:N, ray, ray:auto, ray:HOST:PORT"


def workers_of(engine: str, site: Site) -> AbstractContextManager[Workers]:
    """The workers that `engine` names, each with `site`. Raises InputError for what there is not."""
    kind, _, rest = engine.partition(":")
    cores = os.cpu_count() or 1
    if kind == "processes":
        if rest and not (rest.isdigit() and int(rest)):
            raise InputError(f"--engine {engine}: write a number of processes, as in processes:4")
        number = int(rest or cores)
        return Processes(replace(site, threads=max(1, cores // number)), number)
    if kind != "ray":
        raise InputError(f"--engine {engine}: there are {FORMS}")
    if rest and not site.place.catalog:
        raise InputError(
            f"--engine {engine}: other machines need a store that they can reach: [lake] in the settings "
            "(docs/scaling-cluster.md)"
        )
    try:
        module = import_module("fleetmark.pipeline.on_ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise InputError(f"--engine {engine} needs Ray: pip install 'fleetmark[ray]'") from None
    workers: AbstractContextManager[Workers] = module.RayWorkers(site, rest)
    return workers
