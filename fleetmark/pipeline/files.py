"""Read files in bounded chunks of whole lines, whatever is wrong with them.

Nothing here parses a format. It turns bytes into numbered lines, and everything that is not a line
(invalid UTF-8, NUL bytes, lines without end) into rejects.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import polars as pl

from fleetmark.errors import InputError
from fleetmark.source import LINES_SCHEMA, REJECTS_SCHEMA

if TYPE_CHECKING:
    from io import BufferedReader

MAX_LINE_BYTES = 1 << 20
REJECT_TEXT_CHARS = 2000


def split_lines(chunk: bytes, first_line_no: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    r"""Split a chunk into (lines, rejects), both with line_no counted from `first_line_no`.

    `\\r\\n` ends count as `\\n`. Lines over 1 MiB, with NUL bytes or invalid UTF-8 become rejects.
    """
    try:
        if b"\0" in chunk:
            return _split_damaged(chunk.removesuffix(b"\n"), first_line_no)
        lines = pl.read_lines(chunk, name="text").rechunk()  # it comes in dozens of pieces
    except pl.exceptions.ComputeError:  # invalid UTF-8
        return _split_damaged(chunk.removesuffix(b"\n"), first_line_no)
    numbers = pl.int_range(
        first_line_no, first_line_no + lines.height, dtype=pl.Int64, eager=True
    ).alias("line_no")
    lines.insert_column(0, numbers)
    if len(chunk) <= MAX_LINE_BYTES:
        return lines, pl.DataFrame(schema=REJECTS_SCHEMA)
    too_long = lines["text"].str.len_bytes() > MAX_LINE_BYTES
    if not too_long.any():
        return lines, pl.DataFrame(schema=REJECTS_SCHEMA)
    bad = lines.filter(too_long).select(
        "line_no",
        pl.format(
            "line of {} bytes is longer than the limit of 1 MiB", pl.col("text").str.len_bytes()
        ).alias("reason"),
        pl.col("text").str.slice(0, REJECT_TEXT_CHARS),
    )
    return lines.filter(~too_long), bad


def _split_damaged(chunk: bytes, first_line_no: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Line by line in Python: only chunks that hold a damaged line come here."""
    good_no: list[int] = []
    good: list[str] = []
    bad: list[tuple[int, str, str]] = []
    for offset, raw in enumerate(chunk.split(b"\n")):
        line_no = first_line_no + offset
        line = raw.removesuffix(b"\r")
        reason = ""
        if len(line) > MAX_LINE_BYTES:
            reason = f"line of {len(line)} bytes is longer than the limit of 1 MiB"
        elif b"\0" in line:
            reason = "holds NUL bytes: binary data, not text"
        else:
            try:
                good.append(line.decode("utf-8"))
                good_no.append(line_no)
            except UnicodeDecodeError as error:
                reason = f"not valid UTF-8 at byte {error.start}"
        if reason:
            text = line[:REJECT_TEXT_CHARS].decode("utf-8", "backslashreplace").replace("\0", "\\0")
            bad.append((line_no, reason, text))
    return (
        pl.DataFrame({"line_no": good_no, "text": good}, schema=LINES_SCHEMA),
        pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"),
    )


def shown(path: Path | str) -> str:
    r"""The path as text, for tables and messages: bytes that are no UTF-8 become `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class Content:
    """The unpacked bytes of a file without a byte order mark, read in blocks.

    `damage` says what is wrong with a compressed file once reading has met it; the bytes before
    are good. gzip, bzip2 and xz are recognised by their first bytes, never by the name.
    """

    def __init__(self, path: Path) -> None:
        self.damage = ""
        try:
            with path.open("rb") as file:
                head = file.read(6)
            opener = next((o for magic, o in _OPENERS.items() if head.startswith(magic)), None)
            self.is_plain = opener is None
            self._file = cast("BufferedReader", (opener or _plain)(path))
        except OSError as error:
            raise InputError(f"{shown(path)}: {error.strerror or error}") from None
        self._path = path
        self._is_begun = False
        self._mark_bytes = len(_MARK) if head.startswith(_MARK) else 0
        if head.startswith(_ZSTD):
            self.damage = "zstd-compressed: unpack it first (zstd -d)"
        elif head.startswith(_UTF_16) and b"\0" in (head[2:3], head[3:4]):
            self.damage = "UTF-16 text: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"
        elif head and any(m.startswith(head) and m != head for m in (*_OPENERS, _ZSTD)):
            self.damage = "cut within the first bytes of a compressed file"

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        data = self._read(size)
        if not self._is_begun and data.startswith(_MARK):
            data = data.removeprefix(_MARK)
            data += self._read(size - len(data))
        self._is_begun = True
        return data

    def _read(self, size: int) -> bytes:
        if self.damage:
            return b""
        read = io.BytesIO()  # joining a list of parts would hold everything twice
        missing = size
        while missing:
            try:
                # One step of unpacking: a longer read would lose what it got before the damage.
                part = self._file.read1(min(missing, 1 << 20))
            except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
                self.damage = f"the compressed file is cut or damaged: {error}"
                break
            except OSError as error:
                if error.errno is not None:
                    raise InputError(f"{shown(self._path)}: {error.strerror or error}") from None
                self.damage = f"the compressed file is cut or damaged: {error}"
                break
            if not part:
                break
            read.write(part)
            missing -= len(part)
        return read.getvalue()

    def go_to(self, offset: int) -> None:
        """Read on from there. Only of a plain file: a packed one is unpacked from its start."""
        self._file.seek(offset + self._mark_bytes)
        self._is_begun = True

    def close(self) -> None:
        self._file.close()


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_ZSTD = b"\x28\xb5\x2f\xfd"
_OPENERS: Mapping[bytes, Callable[[Path], IO[bytes]]] = {
    b"\x1f\x8b": lambda path: cast("IO[bytes]", gzip.GzipFile(path, "rb")),
    b"BZh": lambda path: bz2.BZ2File(path, "rb"),
    b"\xfd7zXZ\x00": lambda path: lzma.LZMAFile(path, "rb"),  # noqa: SIM115 - closed by Content
}


def expand(paths: Iterable[Path]) -> list[Path]:
    """Files of the paths, folders walked in order of name, hidden files left out.

    Raises InputError for what does not exist, cannot be listed or is no file or folder.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _walk(path)
        elif path.is_file():
            files.append(path)
        elif path.exists():
            raise InputError(f"{shown(path)} is neither a file nor a folder")
        else:
            raise InputError(f"{shown(path)}: no such file or folder")
    return files


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: {error.strerror}: cannot list this folder")

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(root) / name for name in sorted(names) if not name.startswith(".")]
    return [path for path in found if path.is_file()]
