"""Bounds of rates, and what failures cost: formulas that several subjects share.

Failures are counted as a Poisson process. Quantiles are SciPy's, imported when first needed: its special
functions take half a second to load, which no command should pay that computes no bound.
"""

from __future__ import annotations

import polars as pl

TAIL = 0.025  # of a two-sided interval of 95 %


def expected_count_bounds(count: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Lower and upper 95 % bound of the mean behind an observed count (Garwood 1936).

    By the chi-square: [chi2(0.025, 2r) / 2, chi2(0.975, 2r + 2) / 2]; the lower bound of 0 is 0. A time T
    without further information then has a rate between lower / T and upper / T, and a mean time to failure
    between T / upper and T / lower; T / 0 is no bound.
    """
    from scipy.special import chdtri  # noqa: PLC0415 - see the module's docstring

    known = count.cast(pl.Float64)
    seen = known.fill_null(0).to_numpy()
    # chdtri takes the probability above; of 0 degrees of freedom it knows nothing.
    low = pl.Series(chdtri(seen.clip(1) * 2, 1 - TAIL) / 2)
    high = pl.Series(chdtri(seen * 2 + 2, TAIL) / 2)
    lower = pl.select(pl.when(known == 0).then(0.0).when(known.is_not_null()).then(low)).to_series()
    return lower, pl.select(pl.when(known.is_not_null()).then(high)).to_series()


def poisson_quantile(mean: pl.Series, probability: float) -> pl.Series:
    """Least k with P(X <= k) >= probability for X Poisson with that mean; of mean 0 that is 0."""
    from scipy.special import pdtr, pdtrik  # noqa: PLC0415 - see the module's docstring

    known = mean.cast(pl.Float64).fill_nan(None)
    positive = known.fill_null(0).to_numpy().clip(1e-12)
    # pdtrik inverts in real numbers: the whole number below may do already.
    above = pl.Series(pdtrik(probability, positive)).clip(0).ceil()
    below = (above - 1).clip(0)
    suffices = pl.Series(pdtr(below.to_numpy(), positive) >= probability)
    least = pl.select(pl.when(suffices).then(below).otherwise(above)).to_series()
    return pl.select(pl.when(known.is_not_null()).then(least).cast(pl.Int64)).to_series()


def poisson_tail(count: pl.Series, mean: pl.Series) -> pl.Series:
    """P(X >= count) for X Poisson with that mean; 1 for a count of 0."""
    from scipy.special import pdtrc  # noqa: PLC0415 - see the module's docstring

    known = mean.cast(pl.Float64).fill_nan(None)
    tail = pl.Series(pdtrc((count - 1).clip(0).to_numpy(), known.fill_null(0).to_numpy()))
    return pl.select(
        pl.when(known.is_null()).then(None).when(count > 0).then(tail).otherwise(1.0)
    ).to_series()


def young_daly_s(save_s: pl.Expr, mttf_s: pl.Expr) -> pl.Expr:
    """Interval between checkpoints of least expected loss, to first order (Young 1974): sqrt(2 x save x MTTF).

    Holds while saving is short against the mean time to failure; Daly 2006 gives the higher orders.
    """
    return (2 * save_s * mttf_s).sqrt()


def checkpoint_overhead_ratio(interval_s: pl.Expr, save_s: pl.Expr, mttf_s: pl.Expr) -> pl.Expr:
    """Share of time expected to go into saving and redoing: save / interval + interval / (2 x MTTF)."""
    return save_s / interval_s + interval_s / (2 * mttf_s)


def modelled_ettr_ratio(
    failures_per_h: pl.Expr, restart_h: pl.Expr, interval_h: pl.Expr, save_h: pl.Expr
) -> pl.Expr:
    """Expected training time ratio (arXiv 2410.21680, section IV): (1 - f (u + D/2)) / (1 + w/D).

    f failures an hour of the whole job, u hours to restart, D hours between checkpoints, w hours that saving
    stops training. Below 0 the job never finishes: 0.
    """
    raw = (1 - failures_per_h * (restart_h + interval_h / 2)) / (1 + save_h / interval_h)
    return pl.max_horizontal(raw, raw * 0)


def allowed_failures_per_h(
    target_ratio: float, restart_h: pl.Expr, interval_h: pl.Expr, save_h: pl.Expr
) -> pl.Expr:
    """The same solved for f: failures an hour of the whole job at which it still reaches the target; 0 if saving
    alone misses it.
    """
    raw = (1 - target_ratio * (1 + save_h / interval_h)) / (restart_h + interval_h / 2)
    return pl.max_horizontal(raw, raw * 0)
