"""Tables of Slurm's commands: a header, one delimiter, a record a line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Between the first two names: a bar with up to three signs behind it, a unit separator, a tab; of -o with other
# signs a semicolon, a caret or a comma (a line whose values hold one has too many fields and is refused).
_DELIMITER = re.compile(r"^[^|\x1f\t;^,]+?\s*(\|[^\w\s(%:|]{0,3}|[\x1f\t;^,])")


@dataclass(slots=True)
class Lines:
    """Rows as (line number, cells by column name), lines that fit none, and how many say nothing."""

    names: tuple[str, ...] = ()
    rows: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    strays: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0


def delimiter_of(line: str) -> str | None:
    """What separates the fields of a header, or None."""
    match = _DELIMITER.match(line)
    return match.group(1) if match else None


def read_table(text: str, names: Sequence[str] | None = None, delimiter: str = "|") -> Lines | str:
    """Rows of a table with a header, or with stated names and delimiter; a reason if there is none.

    A name that stands twice keeps its first column. A header in the middle (outputs joined) is skipped.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    header = next((line for line in lines if line.strip()), "")
    if names is None:
        found = delimiter_of(header)
        if found is None:
            return (
                "no header with a delimiter, values may be cut: collect with squeue -o '%i|%T|…', "
                "sinfo -N -o '%N|%T|…' or sacctmgr -P"
            )
        delimiter = found
        names = [name.strip().upper() for name in header.rstrip().split(delimiter)]
        while names and not names[-1]:
            names.pop()
    else:
        header = "\0"
    read = Lines(tuple(names))
    for number, line in enumerate(lines, 1):
        if not line.strip() or line == header:
            read.skipped += bool(line.strip())
            continue
        cells = line.split(delimiter)
        if len(cells) == len(names) + 1 and not cells[-1].strip():
            cells.pop()
        if len(cells) != len(names):
            reason = f"{len(cells)} fields instead of {len(names)}"
            read.strays.append((number, reason, line[:1000]))
            continue
        row = {name: cell.strip() for name, cell in reversed([*zip(names, cells, strict=True)])}
        read.rows.append((number, row))
    return read
