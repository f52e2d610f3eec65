"""Answers of NCCL's monitor (RAS)."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source
from fleetmark.table import Table

from ..scheduler._slurm_time import is_zone
from ..tables.comm_state import COMM_FUNCTION_COUNT, COMM_STATE
from ..tables.nccl_log_event import NCCL_LOG_EVENT
from ..tables.rank_map import RANK_MAP
from ._nccl_ras_json import read_answer
from ._nccl_ras_rows import BadAnswerError, Rows
from ._nccl_ras_text import TextAnswer, read_event_line, stamp_of, version_of

_NO_TIME = (
    "a text snapshot has no time of its own: state it with --set ts=2026-01-31T12:00:00Z, write "
    "`date -Is` in front of it, or ask for JSON (ncclras -f json)"
)
_MARKS = (
    b'"communicators_count"', b"RAS Monitor Mode", b"Communicators...", b'"nvml_devs"',
    b"Job summary\n===========",
)  # fmt: skip


def _looks_like_ras(head: bytes, file_name: str) -> bool:
    del file_name
    return any(mark in head for mark in _MARKS)


@source(
    outputs=(COMM_STATE, COMM_FUNCTION_COUNT, RANK_MAP, NCCL_LOG_EVENT),
    reads="document",
    options=(
        Option("job_id", "job that was asked", "unknown"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("tz", "zone of the machine that answered, as an IANA name: its times carry none"),
        Option("ts", "when the file's text snapshots were taken, with zone or in tz"),
    ),
    sniff=_looks_like_ras,
)
def nccl_ras(content: bytes, context: Context) -> Parsed:
    """Answers of NCCL's RAS monitor, NCCL 2.24 to 2.31: `ncclras`, `ncclras -v`, `-f json`, `-m`.

    A file holds one answer or many, text and JSON, in any order. JSON snapshots (from 2.28.7) name
    every rank: state, operations per function, host, process and device. Text snapshots name only
    ranks that differ; the others are rows with a negative rank that say how many they stand for.
    Monitor events (from 2.29) and processes that do not answer are rows of `nccl_log_event`.

    Hosts are addresses, not names, as NCCL prints them. Times are local and carry no zone (`tz`);
    text snapshots carry none at all: `ts`, or a line with a time in front of each. A JSON answer
    that is cut or of wrong types is one reject and gives no row.

    Not read: diagnostics reports (2.31), the job summary. Python per line and rank, because a text
    line means what its headings say: about 50,000 ranks a second.
    """
    options = context.options
    zone = options.get("tz")
    if zone is not None and not is_zone(zone):
        return _refused(f"tz={zone} is no time zone name such as UTC or Europe/Berlin")
    if not re.fullmatch(r"[0-9]{1,18}", options["attempt"]):
        return _refused(f"attempt {options['attempt']!r} is not a number; --set attempt=N")
    who = {
        "cluster": options["cluster"],
        "job_id": options["job_id"],
        "attempt": int(options["attempt"]),
    }
    reader = _Reader(Rows(zone, who), options.get("ts"))
    reader.read(content.decode("utf-8", "replace"))
    rows = reader.rows
    for event in rows.events:
        event["log_name"] = context.file_name
    found = (rows.states, rows.counts, rows.identities, rows.events)
    return Parsed(
        {
            table.name: _frame(table, part)
            for table, part in zip(nccl_ras.outputs, found, strict=True)
        },
        pl.DataFrame(reader.rejects, schema=REJECTS_SCHEMA, orient="row"),
        reader.skipped,
    )


def _refused(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame([(0, reason, "")], schema=REJECTS_SCHEMA, orient="row"))


def _frame(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {**table.polars_schema(), "line_no": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


class _Reader:
    """Walks through a file's answers."""

    def __init__(self, rows: Rows, stated_ts: str | None) -> None:
        self.rows = rows
        self.rejects: list[tuple[int, str, str]] = []
        self.skipped = 0
        self._stated_ts = stated_ts
        self._stamp: str | None = None
        self._answer: TextAnswer | None = None

    def read(self, text: str) -> None:
        """Read all of a file: JSON objects begin a line with a brace, the rest is text."""
        lines = text.splitlines(keepends=True)
        decoder = json.JSONDecoder()
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        at = 0
        while at < len(lines):
            line = lines[at].strip()
            if not lines[at].startswith("{"):
                self._read_line(at + 1, line)
                at += 1
                continue
            self._finish()
            at = self._read_json(text, starts, at, decoder)
        self._finish()

    def _read_json(self, text: str, starts: list[int], at: int, decoder: json.JSONDecoder) -> int:
        """Read the object that begins on line `at`; returns the line after it."""
        try:
            answer, end = decoder.raw_decode(text, starts[at])
            after = next(n for n in range(at, len(starts)) if starts[n] >= end)
        except (ValueError, RecursionError) as error:
            after = at + 1
            while after < len(starts) - 1 and not text.startswith("{", starts[after]):
                after += 1
            self._reject(at + 1, f"JSON that is cut or damaged: {getattr(error, 'msg', error)}",
                         text[starts[at] : starts[after]])  # fmt: skip
            return after
        try:
            read_answer(answer, at + 1, self.rows)
        except BadAnswerError as error:
            self._reject(at + 1, str(error), text[starts[at] : end])
        return after

    def _read_line(self, line_no: int, line: str) -> None:
        version = version_of(line)
        try:
            if version is not None:
                self._finish()
                self._begin(line_no, version)
            elif stamp := stamp_of(line):
                self._finish()
                self._stamp = stamp
            elif read_event_line(line, line_no, self.rows):
                pass
            else:
                if self._answer is None and line.startswith(("Job summary", "Communicators...")):
                    self._begin(line_no, None)
                if self._answer is None or not self._answer.read(line_no, line):
                    self.skipped += 1
        except BadAnswerError as error:
            self._reject(line_no, str(error), line)

    def _begin(self, line_no: int, version: str | None) -> None:
        stated = self._stamp or self._stated_ts
        self._stamp = None
        self._answer = TextAnswer(line_no, version, None, _NO_TIME)
        if stated is not None:
            try:
                self._answer.ts = self.rows.local_time(stated)
            except BadAnswerError as error:
                self._answer.problem = str(error)

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        try:
            answer.finish(self.rows)
        except BadAnswerError as error:
            self._reject(answer.line_no, str(error), "")

    def _reject(self, line_no: int, reason: str, text: str) -> None:
        self.rejects.append((line_no, reason, text[:2000]))
