"""Lines of nvidia-smi output cut into runs, each read in the form it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fleetmark.source import Context

from ._nvidia_smi_blocks import Capture
from ._nvidia_smi_csv import Header, read_header, read_row, stated_header
from ._nvidia_smi_nvlink import GPU_LINE, LINK_LINE, LinkFact, read_link
from ._nvidia_smi_text import BEGIN, is_inside, read_text
from ._nvidia_smi_xml import read_xml
from ._scrape_pages import MARKER

_XML = re.compile(r"\s*<(?:\?xml\b|!DOCTYPE\b|nvidia_smi_log>)")
# What cannot stand inside a document: the one before it was cut.
_BREAK = re.compile(rf"\s*<\?xml\b|{re.escape(MARKER)}|{BEGIN.pattern}")
_XML_END = "</nvidia_smi_log>"
# `nvidia-smi -L` lists instances below their GPU.
_MIG_LINE = re.compile(r"\s+MIG .*\(UUID: MIG-\S+\)\s*")
_OUTSIDE = (
    "no output of nvidia-smi that is read (-q, -q -x, --query-gpu=… --format=csv, nvlink --status): a "
    "CSV without header needs --set fields=…"
)
_BAD_LINK = (
    "a line of a link that cannot be read: expected `Link 0: 25 GB/s` or `Link 0: <inactive>`"
)
Kind = Literal["text", "xml"]


@dataclass(frozen=True, slots=True)
class GpuLinks:
    """A GPU and the lines of its links."""

    line_no: int
    index: int
    model: str
    uuid: str
    facts: list[tuple[int, LinkFact]] = field(default_factory=list)


class Segments:
    """What a chunk holds: captures, links by GPU, lines refused (line_no, reason), lines skipped."""

    def __init__(self, lines: Iterable[tuple[int, str]], context: Context) -> None:
        self.captures: list[Capture] = []
        self.links: list[GpuLinks] = []
        self.refused: list[tuple[int, str]] = []
        self.skipped: list[int] = []
        fields = context.options.get("fields")
        stated = (uuid.strip() for uuid in context.options.get("gpus", "").split(","))
        self._gpus = tuple(uuid for uuid in stated if uuid)
        self._first = stated_header(fields) if fields else read_header(context.first_line)
        self._header: Header | None = self._first
        self._header_from: int | None = None
        self._kind: Kind | None = None
        self._run: list[tuple[int, str]] = []
        self._open_from: int | None = None
        self._gpu: GpuLinks | None = None
        for line_no, text in lines:
            self._take(line_no, text)
        self._finish()

    def open_from(self, markers: Sequence[int]) -> int | None:
        """Where the part begins that more lines may belong to: the last run, all behind the last
        page marker, or CSV lines below a header that is not the file's first line.
        """
        known = [at for at in (self._open_from, self._header_from, *markers[-1:]) if at is not None]
        return min(known, default=None)

    def settle(self, held_from: int) -> None:
        """Forget what begins at `held_from` or behind it."""
        self.captures = [one for one in self.captures if one.line_no < held_from]
        self.links = [one for one in self.links if one.line_no < held_from]
        self.refused = [one for one in self.refused if one[0] < held_from]
        self.skipped = [line_no for line_no in self.skipped if line_no < held_from]

    def _finish(self) -> None:
        """Read the last run, and note where it began: more lines may follow it."""
        if self._run:
            self._open_from = self._run[0][0]
        elif self._gpu:
            self._open_from = self._gpu.line_no
        self._close()

    def _take(self, line_no: int, text: str) -> None:
        if self._kind == "xml" and not _BREAK.match(text):
            self._run.append((line_no, text))
            if text.rstrip().endswith(_XML_END):
                self._close()
        elif BEGIN.fullmatch(text.strip()):
            self._start("text", line_no, text)
        elif _XML.match(text):
            self._start("xml", line_no, text)
            if text.rstrip().endswith(_XML_END):
                self._close()
        elif self._kind == "text" and is_inside(text):
            self._run.append((line_no, text))
        else:
            self._close()
            self._take_line(line_no, text)

    def _take_line(self, line_no: int, text: str) -> None:
        """A line of the forms whose lines stand for themselves."""
        gpu = GPU_LINE.fullmatch(text)
        header = read_header(text)
        if not text.strip() or text.startswith("#") or _MIG_LINE.fullmatch(text):
            self.skipped.append(line_no)
        elif gpu:
            self._gpu = GpuLinks(line_no, int(gpu[1]), gpu[2], gpu[3])
            self.links.append(self._gpu)
        elif self._gpu and LINK_LINE.fullmatch(text):
            fact = read_link(text)
            if fact:
                self._gpu.facts.append((line_no, fact))
            else:
                self.refused.append((line_no, _BAD_LINK))
        elif header:
            self._gpu, self._header = None, header
            self._header_from = line_no if header != self._first else None
            self.skipped.append(line_no)
        elif self._header and "," in text:
            self.captures.append(read_row(line_no, text, self._header, self._gpus))
        else:
            self.refused.append((line_no, _OUTSIDE))

    def _start(self, kind: Kind, line_no: int, text: str) -> None:
        self._close()
        self._kind, self._gpu = kind, None
        self._run = [(line_no, text)]

    def _close(self) -> None:
        if self._run:
            read = read_xml if self._kind == "xml" else read_text
            self.captures.append(read(self._run))
        self._kind, self._run = None, []
