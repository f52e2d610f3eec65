"""Messages of a stream into rows and rejects, whatever a message holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from fleetmark.pipeline import write
from fleetmark.pipeline.files import MAX_LINE_BYTES, REJECT_TEXT_CHARS
from fleetmark.pipeline.lines import NO_LINES
from fleetmark.source import LINES_SCHEMA, REJECTS_SCHEMA, Context, Parsed, Source

_ROWS = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one partition, as (offset, content) in order.

    `after` is where the partition stood when they were fetched, `next_offset` where it stands then;
    offsets between that no message has (transaction markers, compaction) are passed over. `lost` counts
    messages that the broker had dropped before they were read.
    """

    topic: str
    partition: int
    after: int
    next_offset: int
    messages: Sequence[tuple[int, bytes]]
    lost: int = 0
    undecoded: Sequence[tuple[int, str]] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Part:
    """What one partition's messages gave."""

    rows: Mapping[str, pl.DataFrame]
    rejects: pl.DataFrame
    skipped: int


def file_id(name: str, topic: str, partition: int) -> str:
    """What rows of a partition carry in place of a file's id."""
    return hashlib.sha256(f"stream\0{name}\0{topic}\0{partition}".encode()).hexdigest()[:16]


def parse_messages(source: Source, options: Mapping[str, str], name: str, batch: Messages) -> Part:
    """Rows and rejects, both with the message's offset + 1 as `line_no`."""
    context = Context(batch.topic, {**source.defaults, **options})
    mine = file_id(name, batch.topic, batch.partition)
    lines, damaged = (
        lines_of(batch)
        if source.reads == "lines"
        else (NO_LINES, pl.DataFrame(schema=REJECTS_SCHEMA))
    )
    if source.reads == "lines":
        parts = [_of_lines(source, lines, context)] if lines.height else []
    else:
        parts = [_document(source, offset, content, context) for offset, content in batch.messages]
    refused = [_undecoded(batch), damaged, *(p.rejects.select(*REJECTS_SCHEMA) for p in parts)]
    rows: dict[str, pl.DataFrame] = {}
    for table in source.outputs:
        contract = table.with_provenance()
        found = [write.collected(p.tables[table.name]) for p in parts if table.name in p.tables]
        frame = pl.concat(found, how="diagonal_relaxed") if found else contract.empty()
        gated = write.gate(contract, frame, mine, lines)
        rows[table.name] = gated.rows
        refused.append(gated.rejects)
    rejects = write.rejects_of(
        refused, source.name, f"{name}:{batch.topic}/{batch.partition}", mine
    )
    return Part(rows, rejects, sum(p.skipped for p in parts))


def _undecoded(batch: Messages) -> pl.DataFrame:
    """Messages that their schema does not fit, and those the broker had dropped."""
    rows = [(offset + 1, reason, "") for offset, reason in batch.undecoded]
    if batch.lost:
        first = batch.after + 1
        rows.append((first, f"{batch.lost} messages had left the topic before they were read", ""))
    return pl.DataFrame(rows, schema=REJECTS_SCHEMA, orient="row")


def lines_of(batch: Messages) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every line of every message, and rejects for what is no text.

    A message may hold one record, several lines, or a JSON array of records.
    """
    text = pl.DataFrame(
        {
            "line_no": [offset + 1 for offset, _ in batch.messages],
            "text": [_text(_unpacked(content)) for _, content in batch.messages],
        },
        schema=LINES_SCHEMA,
    )
    reason = (
        pl.when(pl.col("text").is_null()).then(pl.lit("not valid UTF-8"))
        .when(pl.col("text").str.contains("\0", literal=True)).then(pl.lit("holds NUL bytes: binary data, not text"))
        .when(pl.col("text").str.strip_chars().str.len_bytes() == 0).then(pl.lit("the message is empty"))
    )  # fmt: skip
    judged = text.with_columns(reason=reason)
    bad = judged.filter(pl.col("reason").is_not_null()).select(
        "line_no", "reason", text=pl.col("text").fill_null("").str.slice(0, REJECT_TEXT_CHARS)
    )
    lines = (
        judged.filter(pl.col("reason").is_null())
        .select("line_no", text=pl.col("text").str.strip_chars_end("\r\n").str.split("\n"))
        .explode("text", empty_as_null=False)
        .with_columns(pl.col("text").str.strip_suffix("\r"))
    )
    long = pl.col("text").str.len_bytes() > MAX_LINE_BYTES
    too_long = lines.filter(long).select(
        "line_no",
        pl.lit("a line is longer than the limit of 1 MiB").alias("reason"),
        pl.col("text").str.slice(0, REJECT_TEXT_CHARS),
    )
    return lines.filter(~long), pl.concat([bad, too_long])


def _text(content: bytes) -> str | None:
    """None for what is no text; the messages are Python's already, so a call each costs no more."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _unpacked(content: bytes) -> bytes:
    """A JSON array as one line for each of its elements, an object over several lines as one line."""
    if content[:1] not in (b"[", b"{") or (content[:1] == b"{" and b"\n" not in content):
        return content
    try:
        compact = msgspec.json.format(content, indent=-1)
        return compact if content[:1] == b"{" else b"\n".join(map(bytes, _ROWS.decode(compact)))
    except msgspec.DecodeError:  # lines of JSON, or a line that begins with a bracket
        return content


def _of_lines(source: Source, lines: pl.DataFrame, context: Context) -> Parsed:
    """What a source makes of the lines, with the messages' own numbers.

    Lines of one message share its number, which a source must not see: numbers are keys to it.
    """
    numbered = lines.with_row_index("n", offset=1).with_columns(pl.col("n").cast(pl.Int64))
    parsed = source.parse(numbered.select(line_no="n", text="text"), context)  # type: ignore[arg-type]  # reads == "lines"
    places = numbered.lazy().select("n", "line_no")

    def placed(frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        joined = frame.lazy().join(
            places, left_on="line_no", right_on="n", how="left", maintain_order="left"
        )
        return joined.drop("line_no").rename({"line_no_right": "line_no"}).collect()

    return Parsed(
        {name: placed(frame) for name, frame in parsed.tables.items()},
        placed(parsed.rejects), parsed.skipped,
    )  # fmt: skip


def _document(source: Source, offset: int, content: bytes, context: Context) -> Parsed:
    """What one message that is a whole document gives."""
    if not content.strip():
        empty = pl.DataFrame(
            [(offset + 1, "the message is empty", "")], schema=REJECTS_SCHEMA, orient="row"
        )
        return Parsed({}, empty)
    parsed = source.parse(content, context)  # type: ignore[arg-type]  # reads == "document"
    number = pl.lit(offset + 1, pl.Int64).alias("line_no")
    return Parsed(
        {name: write.collected(f).with_columns(number) for name, f in parsed.tables.items()},
        parsed.rejects.with_columns(number), parsed.skipped,
    )  # fmt: skip
