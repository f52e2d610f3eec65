"""Read files in bounded chunks of whole lines, whatever is wrong with them.

Nothing here parses a format. It turns bytes into numbered lines, and everything that is not a line
(invalid UTF-8, NUL bytes, lines without end) into rejects.
"""

from __future__ import annotations

import polars as pl

from fleetmark.source import LINES_SCHEMA, REJECTS_SCHEMA

MAX_LINE_BYTES = 1 << 20
REJECT_TEXT_CHARS = 2000


def split_lines(chunk: bytes, first_line_no: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split a chunk into (lines, rejects), both with line_no counted from `first_line_no`.

    `\\r\\n` ends count as `\\n`. Lines over 1 MiB, with NUL bytes or invalid UTF-8 become rejects.
    """
    if chunk.endswith(b"\n"):
        chunk = chunk[:-1]
    try:
        text = chunk.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text:
        return _split_damaged(chunk, first_line_no)
    values = text.split("\n")
    lines = pl.DataFrame(
        {
            "line_no": pl.int_range(
                first_line_no, first_line_no + len(values), dtype=pl.Int64, eager=True
            ),
            "text": pl.Series(values, dtype=pl.String),
        }
    )
    if "\r" in text:
        lines = lines.with_columns(pl.col("text").str.strip_suffix("\r"))
    if len(chunk) <= MAX_LINE_BYTES:
        return lines, pl.DataFrame(schema=REJECTS_SCHEMA)
    too_long = pl.col("text").str.len_bytes() > MAX_LINE_BYTES
    long_lines = lines.filter(too_long)
    if long_lines.is_empty():
        return lines, pl.DataFrame(schema=REJECTS_SCHEMA)
    bad = long_lines.select(
        "line_no",
        pl.format(
            "line of {} bytes is longer than the limit of 1 MiB", pl.col("text").str.len_bytes()
        ).alias("reason"),
        pl.col("text").str.slice(0, REJECT_TEXT_CHARS),
    )
    return lines.filter(~too_long), bad


def _split_damaged(chunk: bytes, first_line_no: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Line by line in Python: only chunks that hold a damaged line come here."""
    good_no: list[int] = []
    good: list[str] = []
    bad: list[tuple[int, str, str]] = []
    for offset, raw in enumerate(chunk.split(b"\n")):
        line_no = first_line_no + offset
        line = raw.removesuffix(b"\r")
        reason = ""
        if len(line) > MAX_LINE_BYTES:
            reason = f"line of {len(line)} bytes is longer than the limit of 1 MiB"
        elif b"\0" in line:
            reason = "holds NUL bytes: binary data, not text"
        else:
            try:
                good.append(line.decode("utf-8"))
                good_no.append(line_no)
            except UnicodeDecodeError as error:
                reason = f"not valid UTF-8 at byte {error.start}"
        if reason:
            text = line[:REJECT_TEXT_CHARS].decode("utf-8", "backslashreplace").replace("\0", "\\0")
            bad.append((line_no, reason, text))
    return (
        pl.DataFrame({"line_no": good_no, "text": good}, schema=LINES_SCHEMA),
        pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"),
    )
