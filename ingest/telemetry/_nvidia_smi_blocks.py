"""What nvidia-smi said of a GPU, whichever form it had: values by path, and what they stand for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ._nvidia_smi_values import (
    RECOVERY,
    no_value,
    read_index,
    read_mode,
    read_number,
    read_word,
    snake,
)
from ._signals import REGISTRY

Form = Literal["text", "xml", "csv"]

_FIELDS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("nvidia_smi.toml").read_text(encoding="utf-8")
)
_UNIT = {signal.column: signal.unit for signal in REGISTRY}
_NUMBERS = {signal.column: number for number, signal in enumerate(REGISTRY)}
_MODES = ("persistence_mode", "mig_mode", "mig_mode_pending", "ecc_mode", "ecc_mode_pending")
_WHOLE = ("minor_number", "module_id", "slot_number", "tray_index", "fabric_clique_id")
_SNAKE = ("compute_mode", "virtualization_mode", "fabric_state", "fabric_status", "fabric_health")
_RESET = {
    "text": ("GPU Reset Status/Reset Required", "GPU Reset Status/Drain and Reset Recommended"),
    "xml": ("gpu_reset_status/reset_required", "gpu_reset_status/drain_and_reset_recommended"),
    "csv": ("reset_status.reset_required", "reset_status.drain_and_reset_recommended"),
}
_REASONS = {
    "text": ("Clocks Event Reasons/{}", "Clocks Throttle Reasons/{}"),
    "xml": (
        "clocks_event_reasons/clocks_event_reason_{}",
        "clocks_throttle_reasons/clocks_throttle_reason_{}",
    ),
    "csv": (),
}


class Cell(NamedTuple):
    """A value as printed. unit: in CSV that of the header, "" where it names none; else None."""

    line_no: int
    text: str
    unit: str | None = None


class Reading(NamedTuple):
    """A signal's value; or None, and the reason why the text is no measurement."""

    line_no: int
    signal: int
    value: float | None
    reason: str | None = None


@dataclass(slots=True)
class Block:
    """One GPU, or one MIG device of it: cells by path (nvidia_smi.toml), `^` before those of the head."""

    line_no: int
    form: Form
    cells: dict[str, Cell] = field(default_factory=dict)
    instance: str = ""

    def find(self, paths: list[str]) -> list[Cell]:
        """The cells of the first of `paths` of which all parts are there; else none."""
        for path in paths:
            cells = [self.cells.get(part) for part in path.split(" + ")]
            if all(cells):
                return [cell for cell in cells if cell]
        return []


@dataclass(slots=True)
class Gpu:
    """A GPU of a capture: the whole first, then its MIG devices.

    index    its place among all GPUs of the node, where the capture holds them all
    problem  why it cannot be kept
    """

    blocks: list[Block]
    index: int | None = None
    problem: str | None = None

    @property
    def whole(self) -> Block:
        return self.blocks[0]


@dataclass(slots=True)
class Capture:
    """One run of nvidia-smi.

    local_ts  what it says of its time, without zone
    problem   why nothing of it can be kept
    """

    line_no: int
    gpus: list[Gpu] = field(default_factory=list)
    local_ts: datetime | None = None
    node: str | None = None
    problem: str | None = None

    def number_gpus(self, attached: str | None) -> None:
        """Number the GPUs, which come in the driver's order, if none was left out (`-i`)."""
        if attached and attached.strip() == str(len(self.gpus)):
            for index, gpu in enumerate(self.gpus):
                gpu.index = index


def readings(block: Block) -> Iterator[Reading]:
    """The signals that a block has, in the order of the registry's names."""
    for column, paths in _FIELDS["signal"].items():
        cells = block.find(paths[block.form])
        if cells:
            yield _reading(column, cells)
    mask = _throttle_mask(block)
    if mask:
        yield mask
    if block.instance == "":
        yield from _status(block)


def _reading(column: str, cells: list[Cell]) -> Reading:
    """The sum of cells; the first that is no number decides what the reason is."""
    total = 0.0
    for cell in cells:
        value = read_number(cell.text, column, _UNIT[column], cell.unit)
        if value is None:
            return Reading(
                cell.line_no, _NUMBERS[column], None, no_value(cell.text) or "unreadable"
            )
        total += value
    return Reading(cells[0].line_no, _NUMBERS[column], total)


def _throttle_mask(block: Block) -> Reading | None:
    """The bits of all reasons that are active, where the form lists them one by one."""
    cells = [
        (int(bit, 16), block.cells[path])
        for bit, names in _FIELDS["throttle"].items()
        for path in (pattern.format(names.get(block.form)) for pattern in _REASONS[block.form])
        if path in block.cells
    ]
    known = [(bit, cell) for bit, cell in cells if cell.text in ("Active", "Not Active")]
    if not known:
        return None
    mask = sum(bit for bit, cell in known if cell.text == "Active")
    return Reading(known[0][1].line_no, _NUMBERS["throttle_mask"], float(mask))


def _status(block: Block) -> Iterator[Reading]:
    """Codes that are told in other words: fabric registration, resets asked for by older drivers."""
    state, status = (
        next(iter(block.find(_FIELDS["identity"][name][block.form])), None)
        for name in ("fabric_state", "fabric_status")
    )
    codes = {"Not Started": 1.0, "In Progress": 2.0, "Completed": 4.0}
    if state and state.text in codes:
        code = (
            3.0
            if state.text == "Completed" and status and status.text == "Success"
            else codes[state.text]
        )
        yield Reading(state.line_no, _NUMBERS["fabric_manager_status"], code)
    reset = _reset_action(block)
    if reset:
        cell = block.cells[_RESET[block.form][0]]
        code = {"none": 0.0, "gpu_reset": 1.0, "drain_and_reset": 4.0}[reset]
        yield Reading(cell.line_no, _NUMBERS["recovery_action"], code)


def _reset_action(block: Block) -> str | None:
    """The recovery action in the words of drivers 530 to 560."""
    cells = [block.cells.get(path) for path in _RESET[block.form]]
    texts = [cell.text for cell in cells if cell]
    if len(texts) < 2 or not {*texts} <= {"Yes", "No"}:
        return None
    return "drain_and_reset" if texts[1] == "Yes" else "gpu_reset" if texts[0] == "Yes" else "none"


def identity(block: Block) -> dict[str, object]:
    """The facts of gpu_identity that a block has, by column."""
    found: dict[str, object] = {}
    for column, paths in _FIELDS["identity"].items():
        cells = block.find(paths[block.form])
        found[column] = _fact(column, cells[0].text) if cells else None
    found["recovery_action"] = found["recovery_action"] or _reset_action(block)
    return found


def _fact(column: str, text: str) -> object:
    if column in _MODES:
        return read_mode(text)
    if column in _WHOLE:
        return read_index(text)
    if column == "recovery_action":
        return RECOVERY.get(text.strip().lower())
    return snake(text) if column in _SNAKE else read_word(text)


def csv_names() -> frozenset[str]:
    """Every name of --query-gpu that is read."""
    tables = (_FIELDS["signal"], _FIELDS["identity"])
    return frozenset(name for table in tables for paths in table.values() for name in paths["csv"])
