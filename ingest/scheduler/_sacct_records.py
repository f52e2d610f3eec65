"""Records of `sacct` text whose free text holds the delimiter or line ends.

Most lines have one field per column and are split as columns. This is for the others, line by line
in Python (about 30,000 records a second): a newline in a comment splits a record over lines, and a
delimiter in a job name gives it fields too many. Such a record is taken apart in every way in which
all typed columns hold what they must; it is read if all these ways agree on the columns wanted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ._sacct_header import Header
from ._slurm_state import STATE_PATTERN

JOB_ID = r"\d+(?:_(?:\d+|\[[\d,\-:%.]*\]?))?(?:\+\d+)?(?:\.[\w+:\-]+)?"
# Text that users or programs choose and that may hold anything.
FREE_TEXT = frozenset(
    {
        "jobname",
        "comment",
        "admincomment",
        "systemcomment",
        "submitline",
        "workdir",
        "constraints",
        "container",
        "extra",
        "licenses",
        "stderr",
        "stdin",
        "stdout",
        "wckey",
    }
)
_TIME = r"(?:\d{1,11}|\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-][\d:]+)?|Unknown|None|N/A|)"
_NUMBER = r"(?:[\d.]+[KMGTPE]?)?"
_DURATION = r"(?:(?:\d+-)?(?:\d+:)?\d+:\d+(?:\.\d+)?|UNLIMITED|Partition_Limit|INVALID|)"
_WORD = r"\S*"
_SHAPES: Mapping[str, str] = {
    "jobid": JOB_ID,
    "jobidraw": JOB_ID,
    "state": STATE_PATTERN,
    "exitcode": r"(?:\d+:\d+)?",
    "derivedexitcode": r"(?:\d+:\d+)?",
    "nodelist": r"\S*|None assigned",
    "workdir": r"(?:/(?:.|\n)*)?",
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(
        ("uid", "gid", "nnodes", "ncpus", "alloccpus", "allocnodes", "reqcpus", "reqnodes", "priority",
         "elapsedraw", "cputimeraw", "associd", "qosraw", "dbindex", "ntasks", "maxrss", "restarts"),
        _NUMBER,
    ),
    "timelimitraw": rf"{_NUMBER}|UNLIMITED|Partition_Limit",
    **dict.fromkeys(
        ("elapsed", "suspended", "timelimit", "cputime", "totalcpu", "usercpu", "systemcpu", "planned",
         "reserved"),
        _DURATION,
    ),
    **dict.fromkeys(("alloctres", "reqtres", "tresusageintot"), r"(?:\S+=\S*)?"),
    **dict.fromkeys(("user", "group", "account", "partition", "qos", "cluster", "reqmem"), _WORD),
}  # fmt: skip
SHAPES = {name: re.compile(shape) for name, shape in _SHAPES.items()}
TELLING = frozenset({"jobid", "jobidraw", "state", "submit", "eligible", "start", "end"})

MAX_LINES_PER_RECORD = 200
MAX_SURPLUS = 64
MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record put together from lines, from the first: its wanted fields, or why it is refused."""

    line_nos: tuple[int, ...]
    lines: tuple[str, ...]
    fields: Mapping[str, str] | None
    reason: str = ""
    is_ambiguous: bool = False


def records(
    lines: Sequence[tuple[int, str]], header: Header, wanted: Sequence[str]
) -> list[Record]:
    """Records in a run of lines, the first of which may be a plain record that goes on in them."""
    made = list(_assemble(lines, header, wanted))
    for at, record in enumerate(made):
        after = itertools.takewhile(lambda other: other.fields is None, made[at + 1 :])
        if record.fields is not None and _may_go_on(record, list(after), header, wanted):
            why = "may go on in the next line: collect with --delimiter=$'\\x1f'"
            made[at] = Record(record.line_nos, record.lines, None, why, is_ambiguous=True)
    return made


def _may_go_on(
    record: Record, after: Sequence[Record], header: Header, wanted: Sequence[str]
) -> bool:
    """Could the refused lines after a record be its end, with other values in it than it has now?"""
    fields = record.fields or {}
    free_end = {header.names[-1]} & FREE_TEXT
    numbers, lines = record.line_nos, record.lines
    for other in after:
        numbers, lines = numbers + other.line_nos, lines + other.lines
        if len(numbers) > MAX_LINES_PER_RECORD:
            return False
        whole = resolve(numbers, lines, header, wanted)
        if whole.is_ambiguous:
            return True
        if whole.fields and {n for n in wanted if whole.fields[n] != fields[n]} - free_end:
            return True
    return False


def _assemble(
    lines: Sequence[tuple[int, str]], header: Header, wanted: Sequence[str]
) -> Iterator[Record]:
    numbers: list[int] = []
    texts: list[str] = []
    count = 0

    def close() -> Iterator[Record]:
        if numbers:
            yield from _settle(tuple(numbers), tuple(texts), header, wanted)
            numbers.clear()
            texts.clear()

    for line_no, text in lines:
        found = text.count(header.delimiter)
        full = count >= header.delimiters_per_line
        if (
            not numbers
            or len(numbers) >= MAX_LINES_PER_RECORD
            or starts(text, found, header, previous_is_full=full)
        ):
            yield from close()
            count = 0
        numbers.append(line_no)
        texts.append(text)
        count += found
    yield from close()


def _settle(
    numbers: tuple[int, ...], texts: tuple[str, ...], header: Header, wanted: Sequence[str]
) -> Iterator[Record]:
    """One record of these lines, or the first line alone if only that is one."""
    whole = resolve(numbers, texts, header, wanted)
    if whole.fields is None and not whole.is_ambiguous and len(numbers) > 1:
        first = resolve(numbers[:1], texts[:1], header, wanted)
        if first.fields is not None:
            yield first
            yield Record(numbers[1:], texts[1:], None, "belongs to no record")
            return
    yield whole


def starts(text: str, found: int, header: Header, *, previous_is_full: bool) -> bool:
    """Does this line begin a record, rather than continue the one before it?"""
    if (
        found >= header.delimiters_per_line
        and resolve((0,), (text,), header, ()).fields is not None
    ):
        return True
    if not text:
        return False
    telling = False
    for name, field in zip(header.names, text.split(header.delimiter)[:-1], strict=False):
        if name in FREE_TEXT:
            break
        shape = SHAPES.get(name)
        if shape is not None and not shape.fullmatch(field):
            return False
        telling = telling or name in TELLING
    # Nothing before the first free text tells: a new record begins where the last one is full,
    # unless that one ends in free text, which a line without any delimiter then continues.
    return telling or (previous_is_full and (found > 0 or header.names[-1] not in FREE_TEXT))


def resolve(
    numbers: tuple[int, ...], texts: tuple[str, ...], header: Header, wanted: Sequence[str]
) -> Record:
    """The wanted fields of one record, if there is but one way to read them."""
    fields = "\n".join(texts).split(header.delimiter)
    if header.is_trailing:
        if fields[-1] != "":
            return Record(numbers, texts, None, "does not end with the delimiter: cut short?")
        fields.pop()
    width = len(header.names)
    if not 0 <= len(fields) - width <= MAX_SURPLUS:
        return Record(numbers, texts, None, f"{len(fields)} fields, the header has {width}")
    readings: set[tuple[str, ...]] = set()
    steps = 0
    for reading in _readings(fields, header):
        steps += 1
        if reading is not None:
            readings.add(tuple(reading[header.positions[name]] for name in wanted))
        if len(readings) > 1 or steps > MAX_STEPS:
            break
    if len(readings) == 1 and steps <= MAX_STEPS:
        return Record(numbers, texts, dict(zip(wanted, readings.pop(), strict=True)))
    surplus = f"{len(fields)} fields, the header has {width}: " if len(fields) != width else ""
    if readings or steps > MAX_STEPS:
        why = "could be read in several ways: collect with --delimiter=$'\\x1f'"
        return Record(numbers, texts, None, surplus + why, is_ambiguous=True)
    return Record(numbers, texts, None, f"{surplus}a column does not hold what it must")


def _readings(fields: Sequence[str], header: Header) -> Iterator[tuple[str, ...] | None]:
    """Every way to give the surplus fields to free-text columns; None for each dead end."""
    width = len(header.names)
    # (column, position, values so far)
    todo: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    while todo:
        column, position, values = todo.pop()
        if column == width:
            yield values
            continue
        name = header.names[column]
        surplus = len(fields) - position - (width - column)
        shape = SHAPES.get(name)
        dead = True
        for extra in range(surplus + 1 if name in FREE_TEXT else 1):
            value = header.delimiter.join(fields[position : position + 1 + extra])
            if column == width - 1 and extra < surplus:
                continue
            fits = shape.fullmatch(value) if shape else name in FREE_TEXT or "\n" not in value
            if fits:
                dead = False
                todo.append((column + 1, position + 1 + extra, (*values, value)))
        if dead:
            yield None
