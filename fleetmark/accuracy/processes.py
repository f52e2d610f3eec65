"""Independent simulations side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from fleetmark.spared import spare_pandas

T = TypeVar("T")


def each(simulate: Callable[[int], T], seeds: Iterable[int]) -> list[T]:
    """The result for every seed, in their order, with one process per core.

    `simulate` must be picklable. Processes are spawned: DuckDB's and Polars' threads survive no fork.
    """
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=spare_pandas) as pool:
        return list(pool.map(simulate, seeds))
