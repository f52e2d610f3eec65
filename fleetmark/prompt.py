"""The SQL prompt: statements over several lines, completion, history; `.tables` and `.columns TABLE`.

Line editing is Python's own `readline`. Where that is missing, or the input is no terminal, statements are
read line by line all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from fleetmark.errors import FleetmarkError

Rows = tuple[Sequence[str], Sequence[Sequence[Any]]]

_KEYWORDS = (  # noqa: SIM905 - forty words read better without quotes
    "SELECT FROM WHERE GROUP BY ORDER LIMIT HAVING QUALIFY JOIN LEFT ASOF USING ON WITH AS DISTINCT "
    "UNION ALL CASE WHEN THEN ELSE END AND OR NOT NULL IN BETWEEN LIKE INTERVAL DESCRIBE SUMMARIZE "
    "count sum avg min max median quantile_cont date_trunc arg_max"
).split()  # fmt: skip
_HISTORY_LINES = 2000
_HELP = """End a statement with ; or an empty line.
.tables          tables      .columns TABLE   its columns, types and units
.help            this        .quit            or Ctrl-D"""


class Prompt:
    """Reads statements and hands them on.

    run      a statement to its columns and rows
    columns  per table its columns as (name, type, unit)
    show     prints columns and rows
    """

    def __init__(
        self,
        run: Callable[[str], Rows],
        columns: Mapping[str, Sequence[tuple[str, str, str | None]]],
        show: Callable[[Sequence[str], Sequence[Sequence[Any]]], None],
        say: Callable[[str], None],
    ) -> None:
        self._run = run
        self._columns = columns
        self._show = show
        self._say = say
        names = {column for listed in columns.values() for column, _, _ in listed}
        self._words = sorted(
            {*_KEYWORDS, *columns, *names, ".tables", ".columns", ".help", ".quit"}
        )

    def completions(self, text: str) -> list[str]:
        """Words that begin with `text`: tables, columns, SQL; after a dot the columns of that table."""
        table, dot, begun = text.rpartition(".")
        if dot and table in self._columns:
            return [f"{table}.{c}" for c, _, _ in self._columns[table] if c.startswith(begun)]
        return [word for word in self._words if word.lower().startswith(text.lower())]

    def loop(self, history: Path | None) -> None:
        """Read and run until the input ends or `.quit`."""
        readline = self._edit(history) if sys.stdin.isatty() else None
        held: list[str] = []
        while True:
            try:
                line = input(("... " if held else "fleetmark> ") if readline else "")
            except EOFError:
                break
            except KeyboardInterrupt:
                held = []
                self._say("")
                continue
            if not held and line.strip().startswith("."):
                if not self._command(line.split()):
                    break
                continue
            held.append(line)
            if line.rstrip().endswith(";") or not line.strip():
                self._statement(held)
                held = []
        self._statement(held)
        if readline is not None and history is not None:
            with suppress(OSError):
                history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                readline.write_history_file(history)

    def _statement(self, lines: Iterable[str]) -> None:
        sql = "\n".join(lines).strip().rstrip(";")
        if not sql:
            return
        try:
            self._show(*self._run(sql))
        except FleetmarkError as error:
            self._say(str(error))
        except KeyboardInterrupt:
            self._say("stopped")

    def _command(self, words: Sequence[str]) -> bool:
        """Run a dot command; False to end."""
        match words:
            case [".quit" | ".exit"]:
                return False
            case [".tables"]:
                self._show(["table"], [[name] for name in sorted(self._columns)])
            case [".columns", name] if name in self._columns:
                self._show(["column", "type", "unit"], self._columns[name])
            case [".columns", *_]:
                self._say("write .columns TABLE; .tables lists them")
            case _:
                self._say(_HELP)
        return True

    def _edit(self, history: Path | None) -> ModuleType | None:
        try:
            import readline  # noqa: PLC0415 - absent on some systems
        except ImportError:
            return None
        found: list[str] = []

        def complete(text: str, state: int) -> str | None:
            if state == 0:
                found[:] = self.completions(text)
            return found[state] if state < len(found) else None

        readline.set_completer(complete)
        readline.set_completer_delims(" \t\n,()=<>+-*/;")
        readline.parse_and_bind("tab: complete")
        readline.set_history_length(_HISTORY_LINES)
        if history is not None:
            with suppress(OSError):
                readline.read_history_file(history)
        return readline
