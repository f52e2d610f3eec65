"""Text of log fields as times, whole numbers, and byte ranges; NULL where it is no such value."""

from __future__ import annotations

import hashlib

import polars as pl

# Any number of fraction digits (0 to 9 are seen), `T` or a blank, `Z`, `UTC`, an offset, or none.
_STAMP = r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?\s*(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?$"
_LARGEST = 9.2e18


def instant(text: pl.Expr) -> pl.Expr:
    """ISO 8601 with a date, to the microsecond, in UTC; without a zone it is taken as UTC."""
    clock = pl.concat_str(
        text.str.extract(_STAMP, 1), text.str.extract(_STAMP, 2), separator=" "
    ).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    fraction = text.str.extract(_STAMP, 3).fill_null("").str.pad_end(6, "0").str.head(6)
    zone = text.str.extract(_STAMP, 4).fill_null("Z").str.replace(":", "", literal=True)
    is_offset = zone.str.contains(r"^[+-]")
    minutes = (
        zone.str.slice(1, 2).cast(pl.Int64, strict=False) * 60
        + zone.str.slice(3, 2).replace("", "00").cast(pl.Int64, strict=False)
    ) * pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)  # fmt: skip
    ahead = pl.when(is_offset).then(minutes).otherwise(0)
    return (
        clock
        + pl.duration(microseconds=fraction.cast(pl.Int64, strict=False).fill_null(0))
        - pl.duration(minutes=ahead)
    )


def epoch(text: pl.Expr, unit_us: int) -> pl.Expr:
    """A number of units since 1970 (1 s is 1,000,000 us), to the microsecond, between 1990 and 2100."""
    value = text.cast(pl.Decimal(38, 9), strict=False) * unit_us
    whole = value.cast(pl.Int64, strict=False)
    return (
        pl.when(whole.is_between(631_152_000_000_000, 4_102_444_800_000_000))
        .then(whole)
        .cast(pl.Datetime("us"))
    )


def whole(text: pl.Expr, kind: type[pl.DataType] = pl.Int64) -> pl.Expr:
    """A number from 0 that is whole, written 500, 500.0 or 5e2; -1 and what is none are NULL."""
    plain = text.cast(pl.Int64, strict=False)
    spelt = text.cast(pl.Float64, strict=False)
    rounded = pl.when(spelt.is_finite() & (spelt == spelt.floor()) & (spelt < _LARGEST)).then(spelt)
    value = pl.coalesce(plain, rounded.cast(pl.Int64, strict=False))
    return pl.when(value >= 0).then(value).cast(kind, strict=False)


_RANGE = r"^\s*bytes[= ](\d{1,18})-(\d{0,18})(?:/(?:\d+|\*))?\s*$"


def byte_range(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """First and last byte of a `Range` or `Content-Range`; of several ranges none."""
    start = text.str.extract(_RANGE, 1).cast(pl.Int64, strict=False)
    end = text.str.extract(_RANGE, 2).cast(pl.Int64, strict=False)
    return start, pl.when(end >= start).then(end)


def unless(text: pl.Expr, *nothing: str) -> pl.Expr:
    """The text, NULL where it is empty or one of `nothing`."""
    return pl.when(~text.is_in(["", *nothing])).then(text)


def line_id(text: pl.Expr) -> pl.Expr:
    """An id for records that have none: `line:` and a hash, the same on every reading."""
    digest = text.map_batches(_hashed, return_dtype=pl.String)
    return pl.concat_str(pl.lit("line:"), digest)


def _hashed(texts: pl.Series) -> pl.Series:
    """First 16 hex digits of SHA-256, 1.5 million a CPU second."""
    return pl.Series(
        [hashlib.sha256(t.encode()).hexdigest()[:16] if t else None for t in texts],
        dtype=pl.String,
    )


def address(text: pl.Expr) -> pl.Expr:
    """The address without a port: `192.0.2.1:443`, `[2001:db8::1]:443`, or as it is."""
    bare = pl.coalesce(
        text.str.extract(r"^\[([^\]]+)\]"),
        text.str.extract(r"^([0-9]{1,3}(?:\.[0-9]{1,3}){3})(?::[0-9]+)?$"),
        text,
    )
    return unless(bare, "-", "@", "unknown")


def token_hash(secret: pl.Expr) -> pl.Expr:
    """What the uses of one signature share, without the signature: 16 hex digits of its SHA-256."""
    return secret.map_batches(_hashed, return_dtype=pl.String)
