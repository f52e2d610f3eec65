"""Kernel lines: stamp, host and tag apart from the message, and the stamp as UTC.

Stamps: dmesg `[12345.678901]` (also -x, printk caller ids and /dev/kmsg records), dmesg -T, dmesg
--time-format iso; RFC 3164 syslog with and without year; RFC 5424; rsyslog's ISO lines; journalctl
-o short, short-precise, short-iso, short-iso-precise, short-full, short-monotonic, short-unix.
Months and weekdays may be of any locale. talosctl dmesg puts the node in front of facility and priority.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

import polars as pl

from ..scheduler._slurm_time import is_zone
from ._journal_json import as_lines
from ._month_names import MONTH, month_number
from ._scrape_pages import read_time

_CLOCK = r"\d\d:\d\d:\d\d"
_WEEKDAY = r"\p{L}{1,4}\.?"
STAMP = (
    r"^\x{FEFF}?(?:<\d{1,3}>(?P<rfc5424>1 )?)?(?:(?:(?P<sender>[^\s:]+): +)?[a-z0-9]+ *: *[a-z]+ *: )?(?:"
    r"\[ *(?P<uptime>\d+\.\d+)\](?: *\[ *[TC]\d+\])?"
    r"|\d+,\d+,(?P<uptime_us>\d+),[^;]*;"
    rf"|\[{_WEEKDAY} +(?P<ctime_month>{MONTH}) (?P<ctime>[ \d]\d {_CLOCK} \d{{4}})\]"
    rf"| ?(?P<month>{MONTH}) (?P<day>[ \d]?\d) (?:(?P<year>\d{{4}}) )?(?P<clock>{_CLOCK})"
    r"(?:\.(?P<clock_fraction>\d+))?"
    r"|(?P<epoch>\d{9,10}\.\d+)"
    rf"|\[?(?:(?P<weekday>{_WEEKDAY}) )?(?P<iso>\d{{4}}-\d\d-\d\d[T ]{_CLOCK})"
    r"(?:[.,](?P<iso_fraction>\d+))?(?P<offset> ?Z| ?[+-]\d\d:?\d\d| UTC| GMT)?(?:\]:?)?"
    r")(?: (?P<rest>.*)|(?P<record>.*))$"
)
# Host and tag. Only these and `name[pid]:` are taken for tags: a driver's name looks like one.
_TAGGED = (
    r"^(?:(?P<node>[^\s\[]*[^\s\[:]) +)?"
    r"(?P<tag>kernel|systemd-networkd|systemd-journald|NetworkManager|dhcpcd|rsyslogd"
    r"|sudo|nvsentinel-gpu-reset"
    r"|[^\s\[\]:]+\[\d+\]): *"
    r"(?:\[ *\d+\.\d+\] *)?(?P<message>.*)$"
)
_HOSTED = r"^(?P<node>\S*[^\s:]) +(?:(?P<tag>[\w./-]+): +)?(?P<message>.*)$"
_RFC5424 = (
    r"^(?P<node>\S+) (?P<tag>\S+) \S+ \S+ (?:-|(?:\[[^\]]*\])+) ?\x{FEFF}?"
    r"(?:\[ *\d+\.\d+\] *)?(?P<message>.*)$"
)
# journalctl -o short-full writes the zone's abbreviation, which names no zone for certain.
_ABBREVIATION = r"^[A-Z]{2,5} "
_NO_STAMP = (
    "no time stamp that can be read: export the log with one (dmesg -T, journalctl -o short-iso)"
)
_NO_TZ = "the stamp has no time zone: state it with --set tz=UTC or --set tz=Europe/Berlin"
_NO_YEAR = "the stamp has no year: state that of the file's first line with --set year=2026"
_NO_ANCHOR = (
    "the file's first line has no stamp to count the years from: take the lines before the first "
    "stamp away"
)
_NO_BOOT = (
    "the stamp counts from boot: state when that was with --set boot_ts=2026-03-01T08:00:00Z "
    '(date -d "$(uptime -s)" -Is), or export with dmesg -T'
)
# A stamp this much before the first line's is disorder; more is the next year.
_DISORDER = timedelta(days=1)
_EARLIEST, _LATEST = pl.datetime(1970, 1, 1), pl.datetime(2100, 1, 1)
# Stamps without year are compared in a leap year, so that 29 February has a place.
_LEAP = "2000"


def split_stamps(lines: pl.DataFrame) -> pl.DataFrame:
    """`lines` (line_no, text) with the parts of the stamp, and `node`, `tag`, `message`, `is_broken`.

    Without a stamp the message is the text from the driver's name on.
    """
    frame = as_lines(lines)
    frame = frame.with_columns(pl.col("line").str.extract_groups(STAMP).alias("stamp"))
    frame = frame.unnest("stamp")
    rest = pl.coalesce("rest", "record")
    shortened = pl.when(pl.col("weekday").is_not_null()).then(rest.str.replace(_ABBREVIATION, ""))
    frame = frame.with_columns(pl.coalesce(shortened, rest).alias("rest"))
    part = {
        name: pl.col("rest").str.extract_groups(pattern).struct
        for name, pattern in (("tagged", _TAGGED), ("hosted", _HOSTED), ("rfc5424", _RFC5424))
    }
    is_5424 = pl.col("rfc5424").is_not_null()
    is_hosted = pl.col("day").is_not_null() | pl.col("weekday").is_not_null()
    is_tagged = part["tagged"].field("message").is_not_null()

    def field(name: str) -> pl.Expr:
        return (
            pl.when(is_5424).then(part["rfc5424"].field(name))
            .when(is_tagged).then(part["tagged"].field(name))
            .when(is_hosted).then(part["hosted"].field(name))
        )  # fmt: skip

    bare = pl.coalesce(
        pl.col("rest"), pl.col("line").str.extract(r"((?:NVRM|nvidia-nvswitch\d*): .*)"), "line"
    )
    node = field("node")
    return frame.with_columns(
        pl.coalesce(pl.when(node != "-").then(node), "sender").alias("node"),
        field("tag").str.replace(r"\[\d+\]$", "").alias("tag"),
        pl.coalesce(field("message"), bare).alias("message"),
    )


def first_stamp(lines: pl.DataFrame) -> pl.Series:
    """The first month, day and clock of `lines`, in a leap year; empty where there is none."""
    stamps = lines.select(pl.col("text").str.extract_groups(STAMP).alias("stamp")).unnest("stamp")
    return stamps.select(_in_year(pl.lit(_LEAP)).drop_nulls().first().alias("anchor")).to_series()


def place_times(frame: pl.DataFrame, options: Mapping[str, str], anchor: pl.Series) -> pl.DataFrame:
    """Adds `ts`, `ts_precision_s` and `problem` (NULL, or why there is no time)."""
    zone, year, boot = (options.get(name) for name in ("tz", "year", "boot_ts"))
    stated_wrong = _wrong_options(zone, year, boot)
    if stated_wrong:
        return frame.with_columns(
            pl.lit(None, pl.Datetime("us")).alias("ts"),
            pl.lit(None, pl.Float64).alias("ts_precision_s"),
            pl.lit(stated_wrong).alias("problem"),
        )
    start = read_time(boot) if boot else None
    frame = frame.with_columns(_years(year, anchor).alias("at_year"))
    local = pl.coalesce(_in_year(pl.col("at_year")), _ctime(), _iso_local())
    since = pl.coalesce(_microseconds("uptime"), pl.col("uptime_us").cast(pl.Int64, strict=False))
    frame = frame.with_columns(local.alias("local"), since.alias("since_us"))
    early, late = (_to_utc(zone, reading) for reading in ("earliest", "latest"))
    ts = pl.coalesce(
        early,
        _iso_with_offset(),
        pl.lit(start, pl.Datetime("us")) + pl.duration(microseconds="since_us", time_unit="us"),
        _microseconds("epoch").cast(pl.Datetime("us")),
    )
    # Beyond these the stamp, or the time of boot, is damaged.
    ts = pl.when(ts.is_between(_EARLIEST, _LATEST, closed="left")).then(ts)
    doubt_s = (late - early).dt.total_seconds().fill_null(0)
    boot_digits = re.search(r"\.(\d+)", boot) if boot else None
    boot_s = 10.0 ** -min(6, len(boot_digits[1])) if boot_digits else 1.0
    return frame.with_columns(
        ts.alias("ts"), (_precision(boot_s) + doubt_s).alias("ts_precision_s")
    ).with_columns(_problem(zone, year, boot, has_anchor=anchor.len() > 0).alias("problem"))


def _wrong_options(zone: str | None, year: str | None, boot: str | None) -> str | None:
    if zone is not None and not is_zone(zone):
        return f"tz={zone} is no time zone name such as UTC or Europe/Berlin"
    if year is not None and not (year.isascii() and year.isdigit() and 1970 <= int(year) < 2100):
        return f"year={year} is no year between 1970 and 2099"
    if boot is not None and read_time(boot) is None:
        return f"boot_ts={boot} is no time with zone such as 2026-03-01T08:00:00Z"
    return None


def _years(year: str | None, anchor: pl.Series) -> pl.Expr:
    """The year of each stamp: its own, or the one stated for the first line, or its neighbour."""
    own = pl.col("year")
    if year is None or not anchor.len():
        return own
    gap = _in_year(pl.lit(_LEAP)) - pl.lit(anchor[0], pl.Datetime("us"))
    turned = (
        pl.when(gap < -_DISORDER).then(pl.lit(str(int(year) + 1)))
        .when(gap > timedelta(days=366) - _DISORDER).then(pl.lit(str(int(year) - 1)))
        .otherwise(pl.lit(year))
    )  # fmt: skip
    return pl.coalesce(own, turned)


def _in_year(year: pl.Expr) -> pl.Expr:
    """Month, day and clock of a syslog stamp as a time of that year."""
    fraction = _six_digits(pl.col("clock_fraction"))
    text = pl.concat_str(
        year, month_number(pl.col("month")), pl.col("day").str.strip_chars(), "clock", fraction,
        separator=" ",
    )  # fmt: skip
    return text.str.to_datetime("%Y %m %d %H:%M:%S %6f", time_unit="us", strict=False)


def _ctime() -> pl.Expr:
    month = month_number(pl.col("ctime_month"))
    text = pl.concat_str(month, pl.col("ctime").str.strip_chars(), separator=" ")
    return text.str.to_datetime("%m %d %H:%M:%S %Y", time_unit="us", strict=False)


def _iso(pattern: str, *tail: pl.Expr) -> pl.Expr:
    fraction = _six_digits(pl.col("iso_fraction"))
    text = pl.concat_str(pl.col("iso").str.replace("T", " ", literal=True), fraction, *tail,
                         separator=" ")  # fmt: skip
    return text.str.to_datetime(pattern, time_unit="us", strict=False)


def _iso_local() -> pl.Expr:
    return pl.when(pl.col("offset").is_null()).then(_iso("%Y-%m-%d %H:%M:%S %6f"))


def _iso_with_offset() -> pl.Expr:
    offset = pl.col("offset").str.strip_chars().str.replace(r"^(?:Z|UTC|GMT)$", "+0000")
    aware = _iso("%Y-%m-%d %H:%M:%S %6f %z", offset.str.replace(":", "", literal=True))
    return aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def _six_digits(fraction: pl.Expr) -> pl.Expr:
    return fraction.fill_null("").str.slice(0, 6).str.pad_end(6, "0")


def _microseconds(name: str) -> pl.Expr:
    """Seconds with a fraction, as whole microseconds."""
    parts = pl.col(name).str.split_exact(".", 1).struct
    whole = parts.field("field_0").cast(pl.Int64, strict=False)
    # Beyond a century it is no time, and would overflow.
    whole = pl.when(whole < 1 << 33).then(whole)
    return whole * 1_000_000 + _six_digits(parts.field("field_1")).cast(pl.Int64, strict=False)


def _to_utc(zone: str | None, reading: str) -> pl.Expr:
    if zone is None:
        return pl.lit(None, pl.Datetime("us"))
    aware = pl.col("local").dt.replace_time_zone(
        zone,
        ambiguous=reading,  # type: ignore[arg-type]  # one of the two words it knows
        non_existent="null",
    )
    return aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def _precision(boot_s: float) -> pl.Expr:
    """10^-digits of the stamp, at best a microsecond; since boot no better than boot is known."""
    uptime = pl.col("uptime").str.extract(r"\.(\d+)$")
    epoch = pl.col("epoch").str.extract(r"\.(\d+)$")
    fraction = pl.coalesce("clock_fraction", "iso_fraction", uptime, epoch)
    digits = fraction.str.len_chars().clip(0, 6).fill_null(0)
    digits = pl.when(pl.col("uptime_us").is_not_null()).then(6).otherwise(digits)
    own = (pl.lit(10.0).pow(-digits.cast(pl.Float64))).round(6)
    return pl.when(pl.col("since_us").is_not_null()).then(own.clip(boot_s)).otherwise(own)


def _problem(zone: str | None, year: str | None, boot: str | None, *, has_anchor: bool) -> pl.Expr:
    """Why `ts` is NULL."""
    has = {name: pl.col(name).is_not_null() for name in ("day", "year", "ctime", "iso")}
    no_year = has["day"] & ~has["year"]
    is_local = has["day"] | has["ctime"] | (has["iso"] & pl.col("offset").is_null())
    since_boot = pl.col("uptime").is_not_null() | pl.col("uptime_us").is_not_null()
    stamped = is_local | has["iso"] | since_boot | pl.col("epoch").is_not_null()
    is_gone = pl.col("local").is_between(_EARLIEST, _LATEST, closed="left")
    reasons = [
        pl.when(is_wrong).then(pl.lit(text))
        for is_wrong, text in (
            (~stamped, _NO_STAMP),
            (no_year & pl.lit(year is None), _NO_YEAR),
            (no_year & pl.lit(not has_anchor), _NO_ANCHOR),
            (is_local & pl.lit(zone is None), _NO_TZ),
            (since_boot & pl.lit(boot is None), _NO_BOOT),
            (is_gone, f"the stamp does not exist in time zone {zone}"),
        )
    ]
    other = pl.lit(
        "the stamp is no time between 1970 and 2100: is such a date or hour there at all?"
    )
    return pl.when(pl.col("ts").is_null()).then(pl.coalesce(*reasons, other))
