"""One S3 access line, read exactly: quotes inside quoted fields, spaces where none belong.

Quotes are not escaped in this format, so a line is read from its anchors: the leading fields; then
the first place after the request URI where a status, an error code and four numbers stand between
quotes (the first and not the last: a client writes what it likes into its user agent, so a later
one may be forged; spaces in a URI are encoded); then from the right.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

# Fields 1 to 27 in the order of the log; the time takes two. The three quoted ones stand between.
HEAD = ("owner", "bucket", "clock", "zone", "ip", "requester", "request_id", "operation", "key")
MIDDLE = ("status", "error", "sent", "size", "total", "turnaround")
TAIL = (
    "version_id", "host_id", "signature", "cipher", "auth", "host", "tls", "access_point", "acl",
    "region", "more",
)  # fmt: skip
PIECES = ("head", "uri", "middle", "referer", "agent", "tail")
# Between the fields of a piece stands a space, as in the line. Where spaces are doubled or a field
# holds one, it is this, the one character that no line holds.
SEPARATOR = "\n"
UTC_ZONE = "+0000]"
NONE = "-"

# Possessive (`++`) and bounded, so that no line takes more than linear time.
_TIMED = r"([^ ]++) ++([^ ]++) ++(\[[^ \]]++) ++([^ \]]++\]) ++([^ ]++) ++"
_PLAIN = re.compile(_TIMED + r"([^ ]++) ++([^ ]++) ++([^ ]++) ++([^ ]++)")
_OPERATION = r"[A-Z][A-Z0-9]*+(?:\.[A-Za-z0-9_]++)++"
_WORDS = r'([^" ]++(?: ++[^" ]++){0,15}?)'
_SPACED = re.compile(_TIMED + _WORDS + rf" ++([^ ]++) ++({_OPERATION}) ++([^ ]++)")
_NUMBER = r"([-+0-9]++) ++"
_MIDDLE = _NUMBER + r"([^ ]++) ++" + _NUMBER * 4 + r'(?=[-"])'
_AFTER_QUOTE = re.compile('" ++' + _MIDDLE)
_AFTER_DASH = re.compile(" ++- ++" + _MIDDLE)
_TRIES = 64
_DASHES = re.compile(r"- -(?= |$)")


class UnreadableLineError(ValueError):
    """Says what is wrong with the line."""


def read_lines(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cut lines (line_no, text) into PIECES, and those that cannot be into rejects.

    Python per line, about 200,000 lines per CPU second: only for what the columnar split leaves over.
    """
    numbers: list[int] = []
    good: list[tuple[str, ...]] = []
    bad: list[tuple[int, str, str]] = []
    for line_no, text in zip(lines["line_no"], lines["text"], strict=True):
        try:
            good.append(read_line(text))
            numbers.append(line_no)
        except UnreadableLineError as error:
            bad.append((line_no, str(error), text))
    columns = zip(*good, strict=True) if good else ([] for _ in PIECES)
    pieces = {n: pl.Series(v, dtype=pl.String) for n, v in zip(PIECES, columns, strict=True)}
    frame = pl.DataFrame({"line_no": pl.Series(numbers, dtype=pl.Int64), **pieces})
    return frame, pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row")


def read_line(text: str) -> tuple[str, ...]:
    """PIECES of one line: HEAD with a separator at its end, MIDDLE with one at both, TAIL with one
    before each field the line has. Raises UnreadableLineError.
    """
    quote = text.find(' "')
    head = text[:quote].split(" ")
    regular = quote >= 0 and len(head) == len(HEAD) and "" not in head
    if not regular:
        head, end = _read_head(text)
        quote = text.find(' "', end)
        bare = _AFTER_DASH.search(text, end, quote + 2 if quote >= 0 else len(text))
        if bare is not None:
            head[8] += text[end : bare.start()]
            return _separated(text, head, NONE, bare, _read_rest(text, bare.end()))
        if quote < 0:
            raise UnreadableLineError("no request URI: neither a quoted one nor - after the key")
        head[8] += text[end:quote].rstrip(" ")
    uri, found, rest = _read_quoted(text, quote + 2)
    middle = text[found.start() + 1 : found.end()]
    if regular and head[3] == UTC_ZONE and head[6] != NONE and "  " not in middle:
        return text[: quote + 1], uri, middle, *rest
    return _separated(text, head, uri, found, rest)


def _separated(
    text: str, head: list[str], uri: str, middle: re.Match[str], rest: tuple[str, str, str]
) -> tuple[str, ...]:
    """PIECES with SEPARATOR between their fields; time in UTC, a request id where there is none."""
    if head[3] != UTC_ZONE:
        head[2], head[3] = _to_utc(head[2], head[3])
    if head[6] == NONE:
        head[6] = "line:" + hashlib.sha256(text.encode()).hexdigest()[:16]
    referer, agent, tail = rest
    return (
        SEPARATOR.join((*head, "")),
        uri,
        SEPARATOR.join(("", *middle.groups(), "")),
        referer,
        agent,
        tail.replace(" ", SEPARATOR, len(TAIL)),
    )


def _read_head(text: str) -> tuple[list[str], int]:
    """Owner to first word of the key, and where it ends. Requesters may hold spaces."""
    found = _PLAIN.match(text)
    if found is None or not (
        text.startswith(' "', found.end()) or re.fullmatch(_OPERATION, found[8])
    ):
        found = _SPACED.match(text) or found
    if found is None:
        raise UnreadableLineError(
            "not an S3 access line: it does not begin with owner, bucket, [time], address, "
            "requester, request id, operation and key"
        )
    return list(found.groups()), found.end()


def _to_utc(clock: str, zone: str) -> tuple[str, str]:
    try:
        ts = datetime.strptime(clock + zone, "[%d/%b/%Y:%H:%M:%S%z]").astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnreadableLineError(
            f"time {clock} {zone} is not [dd/Mon/yyyy:HH:MM:SS +hhmm]"
        ) from None
    return f"[{ts:%d/%b/%Y:%H:%M:%S}", UTC_ZONE


def _read_quoted(text: str, start: int) -> tuple[str, re.Match[str], tuple[str, str, str]]:
    """Request URI from `start`, the fields after it, and the rest; quotes may stand in all."""
    problem = "no status, error code and four numbers after the quoted request URI"
    found = _AFTER_QUOTE.search(text, start)
    for _ in range(_TRIES):
        if found is None:
            break
        try:
            return text[start : found.start()], found, _read_rest(text, found.end())
        except UnreadableLineError as error:
            problem = str(error)
        found = _AFTER_QUOTE.search(text, found.start() + 1)
    raise UnreadableLineError(problem)


def _read_rest(text: str, start: int) -> tuple[str, str, str]:
    """Referer, user agent and the trailing fields, which hold neither quotes nor spaces."""
    last = text.rfind('"')
    if last < start:
        dashes = _DASHES.match(text, start)
        if dashes is None:
            raise UnreadableLineError("no referer and user agent after the turn-around time")
        return NONE, NONE, _tail(text[dashes.end() :])
    tail = text[last + 1 :]
    if text[start] == NONE:
        if not text.startswith('- "', start) or last == start + 2:
            raise UnreadableLineError("the user agent has no closing quote")
        return NONE, text[start + 3 : last], _tail(tail)
    between = text.find('" "', start + 1, last)
    if between >= 0:
        return text[start + 1 : between], text[between + 3 : last], _tail(tail)
    if last > start and (tail == " -" or tail.startswith(" - ")):
        return text[start + 1 : last], NONE, _tail(tail[2:])
    raise UnreadableLineError("referer and user agent are not two quoted fields")


def _tail(tail: str) -> str:
    """The trailing fields: their number grew over the years, and may grow on."""
    if tail and not tail.startswith(" "):
        raise UnreadableLineError("no space after the user agent's closing quote")
    if "  " in tail or tail.endswith(" "):
        tail = "".join(f" {word}" for word in tail.split(" ") if word)
    return tail
