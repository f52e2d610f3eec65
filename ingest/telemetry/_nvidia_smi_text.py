"""`nvidia-smi -q`: indented headings and `label : value` lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from ._nvidia_smi_blocks import Block, Capture, Cell, Gpu

BEGIN = re.compile(r"=+NVSMI LOG=+")
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_LINE = re.compile(r"( *|\t*)(\S.*?)(?:\s+: ?(.*))?\s*")
_STAMP = "%a %b %d %H:%M:%S %Y"
# Every GPU's block ends with it.
_END = "Processes"
_CUT = (
    "the block of this GPU is cut: it has no Processes. Take the whole output of nvidia-smi -q, "
    "without -d"
)
_NO_GPU = "the capture has no block of a GPU: is it cut?"


def is_inside(text: str) -> bool:
    """Can this line, which follows the beginning of a capture, belong to it?"""
    return text[:1] in ("", " ", "\t") or bool(_GPU.fullmatch(text)) or " : " in text


def read_text(lines: Sequence[tuple[int, str]]) -> Capture:
    """The capture in `lines`, which begin with its NVSMI LOG line."""
    capture = Capture(lines[0][0])
    head: dict[str, Cell] = {}
    at: list[tuple[int, str]] = []
    for line_no, text in lines[1:]:
        found = _LINE.fullmatch(text)
        if not found or not text.strip():
            continue
        indent, label, value = len(found[1].expandtabs(4)), found[2], found[3]
        if _GPU.fullmatch(text):
            capture.gpus.append(Gpu([Block(line_no, "text", dict(head))], problem=_CUT))
            at = []
        elif not capture.gpus:
            if value is not None:
                head[f"^{label}"] = Cell(line_no, value)
        else:
            while at and at[-1][0] >= indent:
                at.pop()
            if label == _END and not at:
                capture.gpus[-1].problem = None
            if value is None:
                at.append((indent, label))
                if label == "MIG Device":
                    capture.gpus[-1].blocks.append(Block(line_no, "text"))
            else:
                _place(capture.gpus[-1], [name for _, name in at], label, Cell(line_no, value))
                at.append((indent, label))
    return _finished(capture, head)


def _place(gpu: Gpu, headings: list[str], label: str, cell: Cell) -> None:
    """Put a value where it belongs: under MIG Device, that is the last instance."""
    block = gpu.whole
    if headings[:1] == ["MIG Device"]:
        block, headings = gpu.blocks[-1], headings[1:]
        if label == "GPU Instance ID" and not headings:
            block.instance = cell.text.strip()
    # The first counts: processes repeat their labels.
    block.cells.setdefault("/".join([*headings, label]), cell)


def _finished(capture: Capture, head: dict[str, Cell]) -> Capture:
    stamp, attached = head.get("^Timestamp"), head.get("^Attached GPUs")
    capture.local_ts = read_stamp(stamp.text) if stamp else None
    capture.number_gpus(attached.text if attached else None)
    if not capture.gpus:
        capture.problem = _NO_GPU
    return capture


def read_stamp(text: str) -> datetime | None:
    """`Tue Jul 14 08:12:38 2026`, local time."""
    try:
        return datetime.strptime(" ".join(text.split()), _STAMP)  # noqa: DTZ007 - its zone is an option
    except ValueError:
        return None
