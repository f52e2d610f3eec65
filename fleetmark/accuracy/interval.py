"""95 percent intervals of measured figures; each states its method.

Formulas: Wilson, "Probable inference", J. Am. Stat. Assoc. 22 (1927) 209; the median's interval by
order statistics (sign test), Hollander and Wolfe, Nonparametric Statistical Methods, section 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, exp, sqrt
from statistics import median

import numpy as np

Z = 1.959964  # 97.5th percentile of the normal distribution
TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, how many trials it rests on, its 95 percent interval, and how that was found.

    `value` is None when nothing could be measured; `method` then says why.
    """

    value: float | None
    n: int = 0
    low: float | None = None
    high: float | None = None
    method: str = "not measured yet"


def nothing(why: str) -> Measured:
    """Nothing was measured, for a reason that the report shows."""
    return Measured(None, method=f"not measured: {why}")


def exact(value: float, n: int) -> Measured:
    """A count or a comparison with published values: nothing was sampled, so nothing is uncertain."""
    return Measured(value, n, value, value, "exact, no sampling")


def share(hits: int, n: int) -> Measured:
    """A proportion with Wilson's score interval."""
    if n == 0:
        return nothing("no trial")
    p = hits / n
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    low = 0.0 if hits == 0 else middle - half
    high = 1.0 if hits == n else middle + half
    return Measured(p, n, low, high, "proportion, Wilson score interval")


def middle(values: Sequence[float]) -> Measured:
    """A median with the interval of order statistics that holds it with 95 percent or more.

    With fewer than 6 values no such interval exists: low and high are then unknown.
    """
    if not values:
        return nothing("no value")
    ordered, n = sorted(values), len(values)
    below, rank = 0.0, -1
    while below + comb(n, rank + 1) / 2**n <= TAIL:
        rank += 1
        below += comb(n, rank) / 2**n
    if rank < 0:
        return Measured(median(ordered), n, None, None, "median; too few values for an interval")
    return Measured(median(ordered), n, ordered[rank], ordered[n - 1 - rank],
                    "median, order-statistic interval")  # fmt: skip


def between(value: float, pairs: int, low: float, high: float) -> Measured:
    """A ratio of paired runs: the interval spans the smallest and the largest pair."""
    return Measured(value, pairs, low, high, "median of paired runs, smallest to largest")


def rate(events: int, exposure: float, per: float) -> Measured:
    """Events per `per` units of exposure with the exact interval of a Poisson count (Garwood 1936)."""
    if exposure <= 0:
        return nothing("no exposure")
    low = 0.0 if events == 0 else _poisson_mean(events - 1, 1 - TAIL)
    scale = per / exposure
    return Measured(events * scale, int(exposure), low * scale, _poisson_mean(events, TAIL) * scale,
                    f"{events} events, exact Poisson interval")  # fmt: skip


def _poisson_mean(count: int, probability: float) -> float:
    """The mean at which `count` or fewer events have this probability, by bisection."""
    low, high = 0.0, 10.0 * (count + 5)
    while high - low > 1e-9 * (count + 1):
        mean = (low + high) / 2
        term = below = exp(-mean)
        for number in range(1, count + 1):
            term *= mean / number
            below += term
        low, high = (mean, high) if below > probability else (low, mean)
    return (low + high) / 2


def resampled(
    clusters: Sequence[tuple[int, ...]], statistic: Callable[..., float], n: int
) -> Measured:
    """A statistic of summed counts, with the 2.5th and 97.5th percentile of 2,000 resampled sets.

    Clusters are drawn whole, with replacement: what happens in one is not independent.
    """
    counts = np.array(clusters)
    drawn = np.random.default_rng(0).integers(len(counts), size=(2_000, len(counts)))
    values = [statistic(*sums) for sums in counts[drawn].sum(axis=1).tolist()]
    low, high = np.percentile(values, (2.5, 97.5))
    value = statistic(*counts.sum(axis=0).tolist())
    return Measured(value, n, float(low), float(high), f"bootstrap over {len(counts)} clusters")
