"""Slurm's times and durations as columns."""

from __future__ import annotations

import polars as pl

# What sacct prints where there is no time (slurm: src/common/parse_time.c, src/sacct/print.c).
NO_TIME = ("", "Unknown", "None", "N/A", "NONE", "INVALID", "(null)")
NO_EPOCH = (0, 4294967294, 4294967295)  # unset, NO_VAL, INFINITE
NO_DURATION = ("", "INVALID", "Unknown", "None", "N/A", "(null)")
UNLIMITED = ("UNLIMITED", "Unlimited")
PARTITION_LIMIT = ("Partition_Limit", "PARTITION_LIMIT")
MAX_SECONDS = 1 << 40

_OFFSET = r"(?:[+-][0-9]{2}:?[0-9]{2}|Z)$"
# D-HH[:MM[:SS]], HH:MM:SS, MM:SS, seconds with an optional fraction.
_WITH_DAYS = r"^([0-9]+)-([0-9]+)(?::([0-9]+)(?::([0-9]+)(?:\.[0-9]+)?)?)?$"
_WITHOUT_DAYS = r"^()(?:([0-9]+):)?([0-9]+):([0-9]+)(?:\.[0-9]+)?$"


def is_zone(name: str) -> bool:
    """Is `name` a time zone (IANA name) that Polars knows?"""
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(name)
    except pl.exceptions.PolarsError:
        return False
    return True


def times(column: pl.Series, zone: str | None) -> pl.DataFrame:
    """`ts` (UTC, no zone) and `problem` (NULL, or why there is no time) of a column of times.

    Accepts epoch seconds, ISO with an offset, and ISO without one, which needs `zone`. Where
    clocks go back, the first of the two readings is taken; where they jump, there is no time.
    """
    text = column.str.strip_chars()
    text = text.set(text.is_in(NO_TIME), None)
    local = text.str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False)
    left = text.is_not_null() & local.is_null()
    has_local = bool(local.is_not_null().any())
    ts = local
    problem = pl.Series([None], dtype=pl.String).new_from_index(0, len(text))
    if left.any():
        ts, local, problem = _other_spellings(text.set(~left, None), local, problem)
        has_local = bool(local.is_not_null().any())
    if has_local and zone is None:
        problem = problem.set(local.is_not_null(), "has no time zone: state it with --set tz=UTC")
        ts = ts.set(local.is_not_null(), None)
    elif has_local and zone not in {None, "UTC"}:
        assert zone is not None  # noqa: S101 - for the type checker
        moved = _to_utc(local, zone)
        ts = moved.zip_with(local.is_not_null(), ts)
        problem = problem.set(
            local.is_not_null() & moved.is_null(), f"does not exist in time zone {zone}"
        )
    return pl.DataFrame({"ts": ts, "problem": problem})


def _to_utc(local: pl.Series, zone: str) -> pl.Series:
    aware = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def _other_spellings(
    text: pl.Series, local: pl.Series, problem: pl.Series
) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Epoch seconds, times with an offset or with a space; returns (ts, still local, problem)."""
    epoch = text.cast(pl.Int64, strict=False)
    no_time = epoch.is_in(NO_EPOCH)
    epoch = epoch.set(~epoch.is_between(0, 1 << 33) | no_time, None)
    from_epoch = (epoch * 1_000_000).cast(pl.Datetime("us"))
    spaced = text.str.replace(" ", "T", literal=True)
    has_offset = spaced.str.contains(_OFFSET)
    zoned = (
        spaced.set(~has_offset, None)
        .str.replace(r"Z$", "+0000")
        .str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", time_unit="us", time_zone="UTC", strict=False)
        .dt.replace_time_zone(None)
    )
    naive = spaced.set(has_offset, None).str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False
    )
    local = local.zip_with(local.is_not_null(), naive)
    ts = local
    for found in (from_epoch, zoned):
        ts = ts.zip_with(ts.is_not_null(), found)
    unread = text.is_not_null() & ts.is_null() & ~no_time.fill_null(value=False)
    return ts, local, problem.set(unread, "is not a time (use SLURM_TIME_FORMAT=%s)")


def durations(text: pl.Expr) -> pl.Expr:
    """Seconds, whole, of `D-HH:MM:SS`, `HH:MM:SS`, `MM:SS.mmm`; NULL for words and what is none."""
    return text.map_batches(_durations, return_dtype=pl.Int64)


def _durations(text: pl.Series) -> pl.Series:
    with_days, without = (_seconds(text, pattern) for pattern in (_WITH_DAYS, _WITHOUT_DAYS))
    return with_days.zip_with(with_days.is_not_null(), without)


def _seconds(text: pl.Series, pattern: str) -> pl.Series:
    # As columns: an expression for each group would match the text again for each.
    parts = text.str.extract_groups(pattern).struct.unnest()
    seconds = pl.lit(0, dtype=pl.Int64)
    for name, factor in (("1", 86_400), ("2", 3_600), ("3", 60), ("4", 1)):
        number = pl.col(name).cast(pl.Int64, strict=False).fill_null(0)
        seconds = seconds + number.clip(0, MAX_SECONDS) * factor
    matched = pl.col("1").is_not_null()  # both patterns have a first group in every match
    return parts.select(pl.when(matched).then(seconds)).to_series()


def is_duration(text: pl.Expr) -> pl.Expr:
    """Is it a duration, one of Slurm's words for none, or a limit by name?"""
    return is_no_duration(text) | durations(text).is_not_null()


def is_no_duration(text: pl.Expr) -> pl.Expr:
    """Is it one of Slurm's words for no duration, a limit by name, or NULL?"""
    return text.is_null() | text.is_in((*NO_DURATION, *UNLIMITED, *PARTITION_LIMIT))
