"""The text form of what NCCL's monitor answers: STATUS, VERBOSE STATUS, monitor events.

It is written for people: ranks are named only where they differ from the rest, which is counted.
Line by line, because a line means what the headings above it say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._nccl_ras_rows import BadAnswerError, Rows, Snapshot, function_name

_PROCESS = (
    r"Process (?P<pid>\d{1,10}) on node (?P<node>\S+) managing GPUs? (?P<cuda>\d{1,9}(?:,\d{1,9})*)"
    r"(?: \(NVML (?P<nvml>\d{1,9}(?:,\d{1,9})*)\))?"
)
_WHERE = (
    r" -- (?:GPU (?P<cuda>\d{1,9})(?: \(NVML (?P<nvml>\d{1,9})\))? managed by process (?P<pid>\d{1,10}) on "
    r"node (?P<node>\S+)|\[process information not found\])"
)
_STAMP = re.compile(
    r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)\]?$"
)
_EVENT = re.compile(rf"\[(?P<ts>[\d-]+ [\d:]+)\] (?P<event>[A-Z_]+): (?P<rest>(?:{_PROCESS})?.*)$")
_VERSION = re.compile(r"NCCL version (\S+) compiled with CUDA")
_COLLECT = re.compile(r"Communicators\.\.\. \((\d{1,9}(?:\.\d{1,9})?)s\)")
_GROUP = re.compile(
    r"(?P<group>\d{1,9}) +(?P<comms>\d{1,9}) +\d{1,9} +[\d-]+ +(?P<n_ranks>\d{1,9}) +(?P<ranks>\d{1,9}) +"
    r"(?P<state>[A-Z]+) +(?P<findings>[A-Z]+(?:,[A-Z]+)*)$"
)
_COMM = re.compile(
    r"#(?P<group>\d{1,9})-(?P<comm>\d{1,9}) \((?P<hash>[0-9a-f]{1,16})\) (?P<finding>[A-Z]+)$"
)
_SECTION = re.compile(r"(INCOMPLETE|DEAD|TIMEOUT)$")
_TIMEOUTS = re.compile(r"Encountered (\d{1,9}) communication timeouts?")
_MISSING = re.compile(r"Missing communicator data from (\d{1,9}) ranks?")
_MISSING_LIST = re.compile(r"The missing ranks?: (\d{1,9}(?:, ?\d{1,9})*)$")
_FUNCTION = re.compile(r"Communicator ranks have different (\w+) operation counts?")
_STATUS = re.compile(r"Communicator ranks have different status$")
_MANY = re.compile(
    r"(?P<count>\d{1,9}) ranks (?:have launched up to operation (?P<op>\d{1,18})"
    r"|have (?P<none>not) launched any operations|have status (?P<state>[A-Z]+)"
    r"|reported (?P<error>.+))$"
)
_RANK = re.compile(
    r"Rank (?P<rank>\d{1,9})(?: has launched up to operation (?P<op>\d{1,18})"
    r"| has (?P<none>not) launched any operations| has status (?P<state>[A-Z]+)"
    rf"| reported (?P<error>.+?))?{_WHERE}$"
)
_STATES = {"NOCOMM": "no_comm"}


@dataclass(slots=True)
class TextAnswer:
    """One text snapshot while it is read."""

    line_no: int
    version: str | None
    ts: datetime | None
    problem: str = ""
    collect_s: float | None = None
    timeout_count: int | None = None
    groups: dict[str, Mapping[str, str]] = field(default_factory=dict)
    comm: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    section: str = ""
    function: str = "all"
    many: dict[str, Any] = field(default_factory=dict)
    ranks: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    counts: list[tuple[dict[str, Any], dict[str, Any], str, int]] = field(default_factory=list)
    unnamed: list[dict[str, Any]] = field(default_factory=list)
    processes: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)

    def finish(self, rows: Rows) -> None:
        """Hand the rows over. Raises BadAnswerError where the snapshot has no time."""
        self.close_many()
        if self.ts is None:
            raise BadAnswerError(self.problem)
        snapshot = Snapshot(self.ts, self.line_no, self.version, self.collect_s, self.timeout_count)
        for number, group in self.groups.items():
            rows.states.append({
                **rows.who, **snapshot.columns(), "comm_id": f"group:{number}", "comm_rank": -1,
                "rank_count": int(group["ranks"]), "n_ranks": int(group["n_ranks"]),
                "init_state": _state(group["state"]),
                "findings": group["findings"].lower().split(","),
            })  # fmt: skip
        for rank in self.ranks.values():
            rows.add_rank(snapshot, rank)
        for rank in self.unnamed:
            rows.states.append({**rows.who, **snapshot.columns(), **rank})
        for comm, rank, function, count in self.counts:
            rows.add_counts(snapshot, comm, rank, {function: count})
        for line_no, event, process in self.processes:
            rows.add_event(line_no, event, ts=self.ts, **process)

    def close_many(self) -> None:
        """Ranks that were counted and not named get a row together, with a negative rank."""
        many, self.many = self.many, {}
        left = many.get("count", 0) - many.get("named", 0)
        if left <= 0 or not self.comm:
            return
        place = -1 - many["place"]
        if many["op_count"] is not None:
            rank = {"comm_rank": place, "rank_count": left}
            self.counts.append((self.comm, rank, self.function, many["op_count"]))
        else:
            self.unnamed.append({
                **self.comm, "comm_rank": place, "rank_count": left,
                "init_state": many["state"], "error": many["error"],
            })  # fmt: skip

    def read(self, line_no: int, line: str) -> bool:
        """Take a line in; False if it says nothing."""
        for pattern, take in _READERS:
            if found := pattern.match(line):
                take(self, line_no, found)
                return True
        return False

    def take_comm(self, _line_no: int, found: re.Match[str]) -> None:
        self.close_many()
        group = self.groups.get(found["group"], {})
        finding = found["finding"].lower()
        comm_id = f"0x{int(found['hash'], 16):016x}"
        # One list per communicator, shared by its rows: findings come in separate sections.
        findings = self.findings.setdefault(comm_id, [])
        findings.append(finding)
        self.comm = {
            "comm_id": comm_id,
            "n_ranks": int(group["n_ranks"]) if group else None,
            "findings": findings,
        }
        self.section, self.function = finding, "all"

    def take_many(self, _line_no: int, found: re.Match[str]) -> None:
        place = self.many.get("place", -1) + 1 if self.many else self._next_place()
        self.close_many()
        self.many = {
            "count": int(found["count"]), "named": 0, "place": place, **_meaning(found),
        }  # fmt: skip

    def _next_place(self) -> int:
        own = self.comm.get("comm_id")
        taken = [
            r["comm_rank"]
            for c, r, f, _ in self.counts
            if c.get("comm_id") == own and f == self.function and r["comm_rank"] < 0
        ]
        taken += [r["comm_rank"] for r in self.unnamed if r["comm_id"] == own]
        return -min(taken, default=0)

    def take_rank(self, _line_no: int, found: re.Match[str]) -> None:
        meaning = _meaning(found)
        if all(value is None for value in meaning.values()):
            self.many["named"] = self.many.get("named", 0) + 1
            meaning = {name: self.many.get(name) for name in meaning}
        else:
            self.close_many()
        who = {**self.comm, "comm_rank": int(found["rank"]), **_device(found)}
        if not self.comm:
            return
        if meaning["op_count"] is not None:
            self.counts.append((self.comm, who, self.function, meaning["op_count"]))
        told = {name: meaning[name] for name in ("error",) if meaning[name] is not None}
        if meaning["state"] is not None:
            told["init_state"] = meaning["state"]
        if self.section == "incomplete":
            told["is_missing"] = told["is_unresponsive"] = True
        known = self.ranks.get((self.comm["comm_id"], who["comm_rank"]), {})
        self.ranks[self.comm["comm_id"], who["comm_rank"]] = {**known, **who, **told}

    def take_missing(self, _line_no: int, found: re.Match[str]) -> None:
        if self.comm:
            self.comm["missing_rank_count"] = int(found[1])

    def take_missing_list(self, _line_no: int, found: re.Match[str]) -> None:
        for number in found[1].split(","):
            key = (self.comm.get("comm_id", ""), int(number))
            if key[0]:
                self.ranks[key] = {
                    **self.comm, "comm_rank": key[1], "is_missing": True, "is_unresponsive": True,
                }  # fmt: skip

    def take_function(self, _line_no: int, found: re.Match[str]) -> None:
        self.close_many()
        # Before NCCL 2.26 it reads: different collective operation counts.
        word = found[1]
        self.function = "all" if word == "collective" else function_name(word)

    def take_section(self, _line_no: int, found: re.Match[str]) -> None:
        self.close_many()
        self.comm, self.section = {}, found[1].lower()

    def take_process(self, line_no: int, found: re.Match[str]) -> None:
        word = "process_dead" if self.section == "dead" else "process_unresponsive"
        device = _device(found)
        self.processes.append((line_no, word, {**device, "message": found[0]}))

    def take_group(self, _line_no: int, found: re.Match[str]) -> None:
        self.groups[found["group"]] = found.groupdict()

    def take_collect(self, _line_no: int, found: re.Match[str]) -> None:
        self.collect_s = float(found[1])

    def take_timeouts(self, _line_no: int, found: re.Match[str]) -> None:
        self.timeout_count = int(found[1])

    def take_status(self, _line_no: int, _found: re.Match[str]) -> None:
        self.close_many()


_Take = Callable[[TextAnswer, int, re.Match[str]], None]
_READERS: tuple[tuple[re.Pattern[str], _Take], ...] = (
    (_COLLECT, TextAnswer.take_collect),
    (_COMM, TextAnswer.take_comm),
    (_SECTION, TextAnswer.take_section),
    (_RANK, TextAnswer.take_rank),
    (_MANY, TextAnswer.take_many),
    (_FUNCTION, TextAnswer.take_function),
    (_STATUS, TextAnswer.take_status),
    (_MISSING, TextAnswer.take_missing),
    (_MISSING_LIST, TextAnswer.take_missing_list),
    (re.compile(_PROCESS + r"$"), TextAnswer.take_process),
    (_TIMEOUTS, TextAnswer.take_timeouts),
    (_GROUP, TextAnswer.take_group),
)


def version_of(line: str) -> str | None:
    """The version in a snapshot's first line."""
    found = _VERSION.match(line)
    return found[1] if found else None


def stamp_of(line: str) -> str | None:
    """A line that is a time and nothing else, as `date -Is` writes it in front of a snapshot."""
    found = _STAMP.match(line)
    return found[1].replace(",", ".") if found else None


def read_event_line(line: str, line_no: int, rows: Rows) -> bool:
    """A monitor event in one line; False if the line is none. Raises BadAnswerError."""
    found = _EVENT.match(line)
    if not found:
        return False
    rows.add_event(
        line_no, found["event"], ts=rows.local_time(found["ts"]), message=found["rest"],
        **_device(found),
    )  # fmt: skip
    return True


def _device(found: re.Match[str]) -> dict[str, Any]:
    """Host, process and GPU. Without an NVML number both numberings are the same."""
    cuda = found["cuda"]
    nvml = found["nvml"] or cuda
    return {
        "node": found["node"],
        "pid": int(found["pid"]) if found["pid"] else None,
        "cuda_device": int(cuda) if cuda and cuda.isdigit() else None,
        "nvml_device": int(nvml) if nvml and nvml.isdigit() else None,
    }


def _meaning(found: re.Match[str]) -> dict[str, Any]:
    return {
        "op_count": int(found["op"]) if found["op"] else 0 if found["none"] else None,
        "state": _state(found["state"]) if found["state"] else None,
        "error": found["error"],
    }


def _state(word: str) -> str:
    return _STATES.get(word, word.lower())
