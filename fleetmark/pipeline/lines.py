"""Text files, chunk by chunk: what settles, what is held back, what has no end."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from fleetmark.pipeline.commit import FileLoad
from fleetmark.pipeline.files import MAX_LINE_BYTES, REJECT_TEXT_CHARS, Content, split_lines
from fleetmark.source import LINES_SCHEMA, REJECTS_SCHEMA, Context, Parsed

CHUNK_BYTES = 16 << 20
HELD_BYTES = 64 << 20
# What the first line is looked for in, at first.
LINE_BYTES = 16 << 10
NO_LINES = pl.DataFrame(schema=LINES_SCHEMA)


@dataclass(frozen=True, slots=True)
class Run:
    """A parsed run of complete records: its lines, its bytes and the number of its last line."""

    parsed: Parsed
    lines: pl.DataFrame
    raw: bytes
    last_line: int


def reject_at(line_no: int, reason: str, text: str = "") -> pl.DataFrame:
    """One reject; line 0 stands for the whole file."""
    return pl.DataFrame([(line_no, reason, text)], schema=REJECTS_SCHEMA, orient="row")


def load_lines(load: FileLoad) -> None:
    """Read a text file from its settled end on."""
    content = Content(load.path)
    try:
        _read_lines(load, content, _skip_settled(load, content))
    finally:
        content.close()


def _skip_settled(load: FileLoad, content: Content) -> str | None:
    """Read up to the settled end, hashing; return the file's first line when it was passed."""
    first: str | None = None
    if load.mark is not None and load.mark.size <= load.record.settled_bytes:
        first = _read_first_line(content)
        content.go_to(load.mark.size)
        load.settled = load.mark
    while missing := load.record.settled_bytes - load.settled.size:
        block = content.read(min(CHUNK_BYTES, missing))
        if first is None:
            first = _first_line(block)
        load.settled = load.settled.plus(block)
        load.on_bytes(len(block))
    return first


def _read_first_line(content: Content) -> str:
    data = b""
    while b"\n" not in data and len(data) < MAX_LINE_BYTES and (block := content.read(LINE_BYTES)):
        data += block
    return _first_line(data)


def _first_line(data: bytes) -> str:
    return data[:MAX_LINE_BYTES].split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8", "replace")


def _read_lines(load: FileLoad, content: Content, first_line: str | None) -> None:
    carry, begun = b"", load.settled.size
    # A packed file is unpacked from its start each time: it is read in one go.
    share = load.most_bytes if content.is_plain else None
    while True:
        block = content.read(CHUNK_BYTES)
        load.on_bytes(len(block))
        at_end = len(block) < CHUNK_BYTES
        data = carry + block
        if first_line is None:
            first_line = _first_line(data)
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > MAX_LINE_BYTES:
            carry, at_end = _refuse_long_line(load, content, data)
            if not carry and at_end:
                return
            continue
        context = Context(load.context.file_name, load.context.options, first_line, at_end=False)
        run, carry = _parse_run(load, context, data[:cut], data[cut:])
        if at_end:
            _finish(load, content, context, run, carry)
            return
        if run is not None:
            _add_run(load, run, finished=False)
            if share is not None and load.settled.size - begun >= share:
                return
        if len(carry) > HELD_BYTES:
            carry = _force(load, context, carry)


def _parse_run(
    load: FileLoad, context: Context, chunk: bytes, rest: bytes
) -> tuple[Run | None, bytes]:
    """Parse whole lines; what the source holds back joins `rest`, which comes with the next chunk."""
    if not chunk:
        return None, rest
    start = load.settled_lines
    last = start + chunk.count(b"\n")
    lines, damaged = split_lines(chunk, start + 1)
    parsed = load.source.parse(lines, context)  # type: ignore[arg-type]  # reads == "lines"
    if parsed.held_from is not None:
        position = _line_start(chunk, last - parsed.held_from + 1)
        rest, chunk = chunk[position:] + rest, chunk[:position]
        last = parsed.held_from - 1
        damaged = damaged.filter(pl.col("line_no") <= last)
        lines = lines.filter(pl.col("line_no") <= last)
        if not chunk:
            return None, rest
    refused = pl.concat([damaged, parsed.rejects.select(*REJECTS_SCHEMA)])
    return Run(Parsed(parsed.tables, refused, parsed.skipped), lines, chunk, last), rest


def _line_start(chunk: bytes, lines_from_end: int) -> int:
    """Where the n-th line from the end of a chunk of whole lines begins."""
    position = len(chunk)
    for _ in range(lines_from_end):
        position = chunk.rfind(b"\n", 0, position - 1) + 1
    return position


def _add_run(load: FileLoad, run: Run, *, finished: bool) -> None:
    end = load.settled.plus(run.raw)
    load.add(run.parsed, run.lines, end, run.last_line, settles=True, finished=finished)


def _force(load: FileLoad, context: Context, carry: bytes) -> bytes:
    """A record longer than what may be held back: take it as it stands."""
    cut = carry.rfind(b"\n") + 1
    ended = Context(context.file_name, context.options, context.first_line, at_end=True)
    run, rest = _parse_run(load, ended, carry[:cut], carry[cut:])
    if run is not None:
        _add_run(load, run, finished=False)
    return rest


def _refuse_long_line(load: FileLoad, content: Content, data: bytes) -> tuple[bytes, bool]:
    """Pass over a line that does not end within the limit.

    Returns what follows it and whether the file ends there. The line is hashed block by block, so
    its length costs no memory. Without an end it may yet grow: then it does not settle.
    """
    text = _text(data)
    end = load.settled.plus(data)
    line_no = load.settled_lines + 1
    rest, terminated, at_end = b"", False, False
    while not terminated and not at_end:
        block = content.read(CHUNK_BYTES)
        load.on_bytes(len(block))
        at_end = len(block) < CHUNK_BYTES
        cut = block.find(b"\n") + 1
        terminated = cut > 0
        end = end.plus(block[:cut] if terminated else block)
        rest = block[cut:] if terminated else b""
    length = end.size - load.settled.size - (1 if terminated else 0)
    bad = [reject_at(line_no, f"line of {length} bytes is longer than the limit of 1 MiB", text)]
    if at_end and not rest and content.damage:
        bad.append(reject_at(line_no + 1, content.damage))
    load.add(
        Parsed({}, pl.concat(bad)), NO_LINES, end, line_no,
        settles=terminated, finished=at_end and not rest,
    )  # fmt: skip
    return rest, at_end


def _finish(
    load: FileLoad, content: Content, context: Context, run: Run | None, carry: bytes
) -> None:
    """Commit the last chunk and, as unsettled, what has no line break or was held back."""
    clean = not carry and not content.damage
    if run is not None:
        _add_run(load, run, finished=clean)
        if clean:
            return
    lines, parsed = NO_LINES, Parsed({})
    # What damage cuts off is no line: half a number would be read as a whole one.
    whole = carry[: carry.rfind(b"\n") + 1] if content.damage else carry
    last = load.settled_lines + whole.count(b"\n") + (whole[-1:] not in (b"", b"\n"))
    if whole:
        lines, damaged = split_lines(whole, load.settled_lines + 1)
        ended = Context(context.file_name, context.options, context.first_line, at_end=True)
        parsed = load.source.parse(lines, ended)  # type: ignore[arg-type]  # "lines"
        refused = [damaged, parsed.rejects.select(*REJECTS_SCHEMA)]
    else:
        empty = not load.settled.size and not content.damage
        refused = [reject_at(0, "the file is empty")] if empty else [parsed.rejects]
    if content.damage:
        refused.append(reject_at(last + 1, content.damage, _text(carry[len(whole) :])))
        last += len(whole) < len(carry)
    load.add(
        Parsed(parsed.tables, pl.concat(refused), parsed.skipped),
        lines, load.settled.plus(carry), last, settles=False, finished=True,
    )  # fmt: skip


def _text(data: bytes) -> str:
    """The beginning of a line that is refused."""
    return data[:REJECT_TEXT_CHARS].decode("utf-8", "backslashreplace").replace("\0", "\\0")
