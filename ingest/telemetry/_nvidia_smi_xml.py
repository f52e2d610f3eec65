"""`nvidia-smi -q -x`: one XML document per run, schemas v11 to v13.

Only expat's events are used: nothing outside the document is opened, and a document that declares an
entity is refused before it can grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.parsers import expat

from ._nvidia_smi_blocks import Block, Capture, Cell, Gpu
from ._nvidia_smi_text import read_stamp

_ROOT = "nvidia_smi_log"
_SCHEMAS = (
    "nvsmi_device_v10.dtd",
    "nvsmi_device_v11.dtd",
    "nvsmi_device_v12.dtd",
    "nvsmi_device_v13.dtd",
)
# nvidia-smi nests 6 deep.
_DEPTH = 32
_NO_GPU = "the capture has no <gpu>: no GPU was found, or the driver did not answer"


class _RefusedError(ValueError):
    """Why the document is not read."""


class _Reader:
    """Collects the leaves of one document by their path below <gpu>."""

    def __init__(self, first_line: int) -> None:
        self.capture = Capture(first_line)
        self._offset = first_line - 1
        self._path: list[str] = []
        self._text: list[str] = []
        self._head: dict[str, Cell] = {}
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.EntityDeclHandler = self._entity
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append

    def read(self, text: str) -> Capture:
        try:
            self._parser.Parse(text, True)  # noqa: FBT003 - expat's own signature: this is all there is
        except expat.ExpatError as error:
            self.capture.problem = (
                f"the XML of this capture is broken in line {self._offset + error.lineno}: "
                f"{expat.ErrorString(error.code)}. Is it cut, or mixed with other output?"
            )
        except _RefusedError as error:
            self.capture.problem = str(error)
        else:
            attached = self._head.get("^attached_gpus")
            self.capture.number_gpus(attached.text if attached else None)
            if not self.capture.gpus:
                self.capture.problem = _NO_GPU
        return self.capture

    def _doctype(self, name: str, system: str | None, _public: str | None, has_subset: int) -> None:
        if has_subset:
            raise _RefusedError(
                "the DOCTYPE declares elements or entities of its own: nvidia-smi's does not"
            )
        if name != _ROOT or (system is not None and system not in _SCHEMAS):
            raise _RefusedError(
                f"DOCTYPE {name} {system!r} is no nvidia-smi schema from v10 to v13"
            )

    def _entity(self, name: str, *_what: object) -> None:
        raise _RefusedError(f"the document declares an entity ({name}): nvidia-smi's do not")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != _ROOT:
            raise _RefusedError(f"the document is <{name}>, not <{_ROOT}>")
        if len(self._path) >= _DEPTH:
            raise _RefusedError(
                f"elements are nested more than {_DEPTH} deep: nvidia-smi's are not"
            )
        self._path.append(name)
        self._text.clear()
        line_no = self._offset + self._parser.CurrentLineNumber
        if self._path == [_ROOT, "gpu"]:
            block = Block(line_no, "xml", dict(self._head))
            if attributes.get("id"):
                block.cells["pci/pci_bus_id"] = Cell(line_no, attributes["id"])
            self.capture.gpus.append(Gpu([block]))
        elif self._path == [_ROOT, "gpu", "mig_devices", "mig_device"]:
            self.capture.gpus[-1].blocks.append(Block(line_no, "xml"))

    def _end(self, _name: str) -> None:
        text = "".join(self._text).strip()
        self._text.clear()
        if text:
            self._leaf(text)
        self._path.pop()

    def _leaf(self, text: str) -> None:
        cell = Cell(self._offset + self._parser.CurrentLineNumber, text)
        path = self._path[1:]
        if path[:1] != ["gpu"]:
            self._head["^" + "/".join(path)] = cell
            if path == ["timestamp"]:
                self.capture.local_ts = read_stamp(text)
            return
        gpu, path = self.capture.gpus[-1], path[1:]
        block = gpu.whole
        if path[:2] == ["mig_devices", "mig_device"] and len(path) > 2:
            block, path = gpu.blocks[-1], path[2:]
            if path == ["gpu_instance_id"]:
                block.instance = text
        # The first counts: supported clocks and processes repeat their elements.
        block.cells.setdefault("/".join(path), cell)


def read_xml(lines: Sequence[tuple[int, str]]) -> Capture:
    """The capture in `lines`, which are one XML document."""
    return _Reader(lines[0][0]).read("\n".join(text for _, text in lines))
