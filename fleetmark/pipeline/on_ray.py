"""Workers of a Ray cluster. Imported only where `--engine ray` asks for it."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future
from typing import Self

# Before Ray is imported, which reads it.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

from fleetmark.errors import ServiceError
from fleetmark.pipeline.spread import Site, Task, run_task
from fleetmark.spared import spare_pandas

# Workers, or their machines, that may be lost in one task.
RETRIES = 3


class RayWorkers:
    """The cluster at `address` (HOST:PORT, or `auto`: the one that this machine belongs to); with '' one
    of this machine alone. A context manager.

    A task takes `site.threads` of the cluster's processors. Raises ServiceError when it does not answer.
    """

    def __init__(self, site: Site, address: str) -> None:
        self._site = site
        try:
            ray.init(
                address=address or "local",
                include_dashboard=False if not address else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
            said = str(error).strip().split("\n", 1)[0]
            raise ServiceError(f"no Ray at {address or 'this machine'}: {said}") from None
        self._task = ray.remote(num_cpus=site.threads, max_retries=RETRIES)(_run)

    def submit(self, task: Task) -> Future[int]:
        future: Future[int] = self._task.remote(self._site, task).future()
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()


def _run(site: Site, task: Task) -> int:
    spare_pandas()
    return run_task(site, task)
