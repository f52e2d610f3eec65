"""Pages of an exporter and when each was scraped: a page does not say so itself.

The time of a sample is, first come first served: its own timestamp; the page's marker, a comment
line `# fleetmark scrape ts=TIME [node=NAME]` in front of it; the option `ts`; a time in the file's
name. TIME is RFC 3339 with zone (2026-03-20T12:23:43Z) or seconds since 1970. The time at which a
file was written is never taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import polars as pl

from fleetmark.source import Context

MARKER = "# fleetmark scrape"
NAME_TIME = (
    r"(?P<ts>(?<!\d)\d{4}-?\d\d-?\d\dT\d\d[-:]?\d\d[-:]?\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
    r"|(?<![\da-fA-F-])1\d{9}(?![\da-fA-F]))"
)
REMEDY = (
    "no time: state --set ts=TIME, put a line '# fleetmark scrape ts=TIME' before each page, or the "
    "time of the scrape into the file's name (2026-03-20T12-23-43Z)"
)
_FACT = re.compile(r"(ts|node)=(\S+)")
# Scrapes older or younger than this are a unit mistaken (ms for s), not history.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)


def read_time(text: str) -> datetime | None:
    """RFC 3339 with zone (also without separators, or `-` in the time) or epoch seconds, as UTC
    without zone; None where it is neither, or not between 2000 and 2100.
    """
    try:
        if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
            time = datetime.fromtimestamp(float(text), tz=UTC)
        else:
            time = datetime.fromisoformat(re.sub(r"(?<=T\d\d)-(\d\d)-(?=\d\d)", r":\1:", text))
    except (ValueError, OverflowError):
        return None
    if time.tzinfo is None or not EARLIEST <= time < LATEST:
        return None
    return time.astimezone(UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape; `ts` None: unknown, and `problem` says what to do."""

    line_no: int
    ts: datetime | None
    node: str | None
    problem: str = REMEDY

    @property
    def is_stated(self) -> bool:
        """A time was stated for it, readable or not."""
        return self.ts is not None or self.problem is not REMEDY

    @classmethod
    def stated(cls, line_no: int, ts: str | None, node: str | None, where: str) -> Self:
        time = read_time(ts) if ts else None
        if ts and time is None:
            wrong = f"{where} {ts!r} is no time: write 2026-03-20T12:23:43Z or seconds since 1970"
            return cls(line_no, None, node, wrong)
        return cls(line_no, time, node)


def pages_of(markers: pl.DataFrame, context: Context) -> list[Page]:
    """The page before the first marker, then one per marker line."""
    node = context.options.get("node")
    pages = [Page.stated(0, context.options.get("ts"), node, "option ts")]
    for line_no, text in markers.select("line_no", "text").iter_rows():
        facts = dict(_FACT.findall(text.removeprefix(MARKER)))
        where = f"the page marker in line {line_no}: ts"
        pages.append(Page.stated(line_no, facts.get("ts", ""), facts.get("node", node), where))
    return pages


def own_times(time: pl.Series) -> pl.Series:
    """Timestamps of samples as Datetime: milliseconds (text format) or seconds (OpenMetrics).

    The two are told apart by size: 1e11 is 1973 in milliseconds and the year 5138 in seconds.
    NULL where the time is not between 2000 and 2100.
    """
    if time.null_count() == time.len():
        return pl.Series([None], dtype=pl.Datetime("us")).new_from_index(0, time.len())
    us = pl.when(time.abs() < 1e11).then(time * 1e6).otherwise(time * 1e3)
    frame = pl.select(us.round().cast(pl.Int64, strict=False).cast(pl.Datetime("us")).alias("ts"))
    ts = frame["ts"]
    inside = (ts >= EARLIEST.replace(tzinfo=None)) & (ts < LATEST.replace(tzinfo=None))
    return ts.set(~inside.fill_null(value=False), None)


def page_frame(pages: Sequence[Page]) -> pl.DataFrame:
    """Pages by number: page, page_ts, page_node, problem."""
    return pl.DataFrame(
        [(number, page.ts, page.node, page.problem) for number, page in enumerate(pages)],
        schema={
            "page": pl.UInt32(),
            "page_ts": pl.Datetime("us"),
            "page_node": pl.String(),
            "problem": pl.String(),
        },
        orient="row",
    )
