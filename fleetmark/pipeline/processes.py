"""Worker processes on this machine."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Self

from fleetmark.pipeline.spread import Site, Task, run_task
from fleetmark.spared import spare_pandas


class Processes:
    """A number of them; those that are killed are replaced. A context manager."""

    def __init__(self, site: Site, number: int) -> None:
        self._site = site
        self._number = number
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        # A fork would copy DuckDB's and Polars' threads as locks that nobody opens.
        return ProcessPoolExecutor(
            self._number, mp_context=get_context("spawn"), initializer=spare_pandas
        )

    def submit(self, task: Task) -> Future[int]:
        try:
            return self._pool.submit(run_task, self._site, task)
        except BrokenExecutor:
            self._pool.shutdown(wait=False)
            self._pool = self._new()
            return self._pool.submit(run_task, self._site, task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
