"""Records of JSON logs as columns of text: an object a line, in arrays, in envelopes, over lines.

Most are decoded by `_json_decoded.py`, which has the rates. What readers of JSON disagree about and
what is damaged DuckDB decodes, a chunk at once; there nothing recurses, so nesting costs memory in
proportion to its text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, rejects
from fleetmark.table import Table

from ._json_blocks import gathered
from ._redact import redact

# An envelope in an envelope in an envelope is the deepest seen: Event Hub batch, record, string.
_ROUNDS = 4
_FRAMING = ("", "[", "]", "[]", ",", "],")


@dataclass(frozen=True, slots=True)
class Form:
    """What a record of a format looks like.

    marker     paths of which a record has at least one; what has none is no record
    fields     column name -> JSON path of what is taken out, as text; objects and arrays as JSON
    envelopes  paths under which records may lie instead: an array, an object, or JSON in a string
    """

    marker: tuple[str, ...]
    fields: Mapping[str, str]
    envelopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Records:
    """`rows`: line_no, `record` (from 1 in its line), text and the form's fields."""

    rows: pl.DataFrame
    rejects: pl.DataFrame
    skipped: int
    held_from: int | None


def read_records(lines: pl.DataFrame, context: Context, form: Form) -> Records:
    """The records in a chunk of lines; lines of an array's framing and blank ones are skipped."""
    blocks = gathered(lines, at_end=context.at_end)
    bare = pl.col("text").str.strip_chars()
    written = blocks.lines.with_columns(bare).filter(~bare.is_in(_FRAMING))
    skipped = blocks.skipped + blocks.lines.height - written.height
    rows, bad = _decoded(written, form)
    return Records(rows, bad, skipped, blocks.held_from)


def read_document(content: bytes, form: Form) -> Records | None:
    """The records of a document that is one JSON value, numbered from 1; None if it is none."""
    first, _, more = content.lstrip().partition(b"\n")
    if more.strip() and _is_whole(first):
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    whole = pl.DataFrame({"line_no": [1], "text": [text]})
    rows, bad = _decoded(whole, form)
    if bad.height and bad["line_no"][0] == 1 and rows.is_empty() and "\n" in text.strip():
        return None
    renumbered = rows.with_columns(pl.int_range(1, pl.len() + 1).alias("line_no"))
    return Records(renumbered, bad, 0, None)


def _is_whole(line: bytes) -> bool:
    """A line that is an object by itself: what follows are more of them."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _decoded(lines: pl.DataFrame, form: Form) -> tuple[pl.DataFrame, pl.DataFrame]:
    from ._json_decoded import decoded  # noqa: PLC0415 - only logs of JSON need msgspec

    rows, left = decoded(lines, form.marker, form.fields, form.envelopes)
    if left.height:
        rows = pl.concat([rows, _by_duckdb(left, form)]).sort("line_no", "record")
    shown = ", ".join(path.removeprefix("$.") for path in form.marker)
    reason = (
        pl.when("is_object").then(pl.lit(f"no record: it has none of {shown}"))
        .otherwise(pl.lit("not a JSON object: damaged or cut"))
    )  # fmt: skip
    bad = rejects(rows.filter(~pl.col("is_record")), reason)
    good = rows.filter("is_record").drop("is_record", "is_object")
    return good, bad.select(*REJECTS_SCHEMA)


def _by_duckdb(lines: pl.DataFrame, form: Form) -> pl.DataFrame:
    """line_no, record, text, is_record, is_object and the fields, of lines of any kind."""
    with duckdb.connect() as connection:
        found = _unwrapped(connection, lines, form)
        connection.register("found", found.to_arrow())
        paths = [*form.marker, *form.fields.values()]
        columns = ", ".join(
            f'f[{n}] AS "{name}"' for n, name in enumerate(form.fields, len(form.marker) + 1)
        )
        marked = " OR ".join(f"f[{n}] IS NOT NULL" for n in range(1, len(form.marker) + 1))
        return connection.execute(
            f"""
            WITH cut AS (
                SELECT line_no, record, text,
                    CASE WHEN is_object THEN json_extract_string(text, $paths) END AS f
                FROM found
            )
            SELECT line_no, record, text, coalesce({marked}, false) AS is_record,
                f IS NOT NULL AS is_object, {columns}
            FROM cut ORDER BY line_no, record
            """,  # noqa: S608 - built of the names in Form
            {"paths": paths},
        ).pl()


def _unwrapped(
    connection: duckdb.DuckDBPyConnection, lines: pl.DataFrame, form: Form
) -> pl.DataFrame:
    """line_no, record, text, is_object: arrays and envelopes opened until a record stands free."""
    found = " OR ".join(f"f[{n}] IS NOT NULL" for n in range(1, len(form.marker) + 1))
    connection.register("lines", lines.select("line_no", "text").to_arrow())
    # Most lines are a record as they stand: only the others are opened.
    split = connection.execute(
        f"""
        SELECT line_no, text, coalesce(({found}) AND starts_with(text, '{{'), false) AS is_record
        FROM (
            SELECT *, CASE WHEN json_valid(text) THEN json_extract_string(text, $marker) END AS f
            FROM lines
        )
        """,  # noqa: S608 - built of numbers
        {"marker": list(form.marker)},
    ).pl()
    plain = split.filter("is_record").select(
        "line_no", pl.lit("").alias("place"), "text", pl.lit(value=True).alias("is_object")
    )
    current = split.filter(~pl.col("is_record")).select(
        "line_no", pl.lit("").alias("place"), "text", step=pl.lit(0)
    )
    done = [plain]
    for _ in range(_ROUNDS + 1):
        connection.register("current", current.to_arrow())
        opened = connection.execute(
            _OPEN, {"marker": list(form.marker), "envelopes": list(form.envelopes)}
        ).pl()
        left = opened.filter(pl.col("inner").is_null())
        done.append(left.select("line_no", "place", "text", "is_object"))
        inside = opened.filter(pl.col("inner").is_not_null() & (pl.col("inner").list.len() > 0))
        if inside.is_empty():
            break
        current = _within(inside)
    else:  # deeper than any format goes: what stands there is judged as it is
        done.append(
            current.select(
                "line_no", "place", "text", pl.col("text").str.starts_with("{").alias("is_object")
            )
        )
    index = pl.int_range(pl.len())
    is_first = (pl.col("line_no") != pl.col("line_no").shift(1)).fill_null(value=True)
    start = pl.when(is_first).then(index).forward_fill()
    return (
        pl.concat(done)
        .sort("line_no", "place")
        .with_columns(record=index - start + 1)
        .select("line_no", "record", "text", "is_object")
    )


def _within(inside: pl.DataFrame) -> pl.DataFrame:
    """line_no, place, text, step of what lies in arrays and envelopes that were opened."""
    return (
        inside.select("line_no", "place", pl.col("inner").alias("text"))
        .with_columns(step=pl.int_ranges(0, pl.col("text").list.len()))
        .explode("text", "step")
        .with_columns(pl.format("{}.{}", "place", pl.col("step").cast(pl.String).str.zfill(9)).alias("place"))
    )  # fmt: skip


# A line's end in an unclosed array is a comma or a bracket; an array of records opens with one.
_OPEN = r"""
WITH trimmed AS (
    SELECT line_no, place,
        CASE WHEN json_valid(text) THEN text
             ELSE regexp_replace(regexp_replace(text, '^(?:\[|,)\s*', ''), '\s*[,\]]+$', '') END AS text
    FROM current
),
typed AS (
    SELECT line_no, place, text, CASE WHEN json_valid(text) THEN json_type(text) END AS kind
    FROM trimmed
),
looked AS (
    SELECT *,
        CASE WHEN kind = 'OBJECT' AND len(list_filter(json_extract_string(text, $marker), lambda x: x IS NOT NULL)) = 0
        THEN list_filter(json_extract(text, $envelopes), lambda x: x IS NOT NULL)[1] END AS envelope
    FROM typed
)
SELECT line_no, place, text, coalesce(kind = 'OBJECT', false) AS is_object,
    CASE
        WHEN kind = 'ARRAY' THEN json_extract(text, '$[*]')::VARCHAR[]
        WHEN json_type(envelope) = 'ARRAY' THEN json_extract(envelope, '$[*]')::VARCHAR[]
        WHEN json_type(envelope) = 'OBJECT' THEN [envelope::VARCHAR]
        WHEN json_type(envelope) = 'VARCHAR' AND json_valid(envelope ->> '$')
            THEN [envelope ->> '$']
    END AS inner
FROM looked
"""


def without_secrets(text: pl.Expr) -> pl.Expr:
    """JSON text with the values of members whose name speaks of a secret replaced by REDACTED."""
    return text.str.replace_all(_HIDDEN_MEMBER, '${1}"REDACTED"')


_HIDDEN_MEMBER = (  # members of JSON objects whose text is hidden
    r'(?i)("[^"\\]*(?:secret|passw|token|authorization|signature|credential|private_?key|cookie)'
    r'[^"\\]*"\s*:\s*)"(?:[^"\\]|\\.)*"'
)


# Longer requests are padded or hold payloads; what is cut would be no JSON, so they are left out.
_MOST_DETAIL = 64 << 10


def bounded_detail(text: pl.Expr) -> pl.Expr:
    """A request's JSON as tables keep it: without secrets, NULL where it exceeds 64 KiB."""
    return pl.when(text.str.len_bytes() <= _MOST_DETAIL).then(without_secrets(redact(text)))


def timed(rows: pl.DataFrame, written: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that have a `ts`, and as rejects those whose time, in column `written`, is none."""
    reason = pl.format("time {} is no time", pl.col(written).str.head(60).fill_null("(missing)"))
    late = rejects(rows.filter(pl.col("ts").is_null()), reason).select(*REJECTS_SCHEMA)
    return rows.filter(pl.col("ts").is_not_null()), late


def fitting(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """`line_no` and those columns of the table that there are."""
    return rows.select("line_no", *(n for n in table.column_names if n in rows.columns))


def scrubbed(bad: pl.DataFrame) -> pl.DataFrame:
    """Rejects without secrets, at most 2,000 characters of each."""
    text = without_secrets(redact(pl.col("text").str.head(2000)))
    return bad.select("line_no", "reason", text)
