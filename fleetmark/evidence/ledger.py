"""An append-only list whose every entry carries the hash of the one before.

hash = SHA-256 over the canonical JSON (sorted keys, no spaces, UTF-8) of
`[number, at, kind, body, previous hash]`; the first entry follows 64 zeros. With a key (kept off the
machine that could be broken into) it is HMAC-SHA-256, so that nobody without it can build a chain anew.

What `verify` finds: an edited, removed, inserted, doubled or reordered entry breaks the chain where it
stands; entries cut off the end disagree with the head, which every append rewrites in its own
transaction. Whoever may write the file can cut the end *and* set the head back: only a head noted
elsewhere (`Ledger.head`, printed by `fleetmark evidence head`) tells that, so `verify` takes one.

The file is SQLite in write-ahead mode. An append is one transaction: several processes append to one
chain, and a process killed at any moment leaves whole entries. The last entries before a power cut may
be missing. About 5,000 appends a second.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from fleetmark.errors import InputError, StoreError
from fleetmark.settings import Settings

FILE = Path("evidence") / "ledger.sqlite"
GENESIS = "0" * 64
KEY = "FLEETMARK_EVIDENCE_KEY"
_WAIT_S = 10.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
  number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
  previous TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS entry_by_kind ON entry (kind, number);
CREATE TABLE IF NOT EXISTS head (
  only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL, hash TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact. `at` is ISO 8601 in UTC, `body` the JSON object exactly as it was hashed."""

    number: int
    at: str
    kind: str
    body: str
    previous: str
    hash: str

    def line(self) -> str:
        """The entry as one JSON line, for export."""
        shown = {"number": self.number, "at": self.at, "kind": self.kind,
                 "body": json.loads(self.body), "previous": self.previous, "hash": self.hash}  # fmt: skip
        return json.dumps(shown, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends: note it elsewhere and `verify` finds a cut."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and at which entry (0: with the ledger as a whole)."""

    number: int
    what: str


class Ledger:
    """The ledger of a store. Safe to use from several threads and processes.

    `clock` gives the time in UTC without zone. Raises StoreError when the file cannot be read or
    written: whoever must leave evidence refuses its work then.
    """

    def __init__(self, root: Path, clock: Callable[[], datetime], *, key: bytes = b"") -> None:
        self.path = root / FILE
        self._clock = clock
        self._key = key
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(exist_ok=True)
            self._sqlite = sqlite3.connect(
                self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
            self._sqlite.execute("PRAGMA journal_mode = WAL")
            self._sqlite.execute("PRAGMA synchronous = NORMAL")
            self._sqlite.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the evidence ledger {self.path}: {error}") from None

    @classmethod
    def of(cls, settings: Settings, clock: Callable[[], datetime]) -> Self:
        """The ledger of the store, keyed by the environment variable FLEETMARK_EVIDENCE_KEY if set."""
        return cls(settings.store, clock, key=settings.environment.get(KEY, "").encode())

    @classmethod
    def existing(cls, settings: Settings, clock: Callable[[], datetime]) -> Self:
        """The same. Raises InputError when nothing was ever written to it."""
        path = settings.store / FILE
        if not path.exists():
            raise InputError(
                f"no evidence ledger at {path}: the first request to the API or the first alert makes it"
            )
        return cls.of(settings, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._sqlite.close()

    def append(self, kind: str, body: Mapping[str, Any]) -> Head:
        """Add one fact at the end. Raises StoreError when it could not be written."""
        text = canonical(body)
        with self._lock:
            try:
                self._sqlite.execute("BEGIN IMMEDIATE")
                try:
                    last = self._stored_head() or Head(0, GENESIS)
                    number, at = last.number + 1, self._clock().isoformat() + "Z"
                    digest = self._hash(number, at, kind, text, last.hash)
                    self._sqlite.execute(
                        "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)",
                        (number, at, kind, text, last.hash, digest),
                    )
                    self._sqlite.execute(
                        "INSERT INTO head VALUES (1, ?, ?) "
                        "ON CONFLICT (only) DO UPDATE SET number = excluded.number, hash = excluded.hash",
                        (number, digest),
                    )
                    self._sqlite.execute("COMMIT")
                except BaseException:
                    self._sqlite.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StoreError(
                    f"the evidence ledger {self.path} cannot be written: {error}"
                ) from None
        return Head(number, digest)

    def head(self) -> Head:
        """The last entry's number and hash; (0, zeros) while there is none."""
        with self._lock:
            return self._stored_head() or Head(0, GENESIS)

    def entries(self, *, after: int = 0, kind: str | None = None) -> Iterator[Entry]:
        """Entries in order, in bounded memory."""
        number = after
        while True:
            with self._lock:
                try:
                    rows = self._sqlite.execute(
                        "SELECT number, at, kind, body, previous, hash FROM entry "
                        "WHERE number > ? AND (? IS NULL OR kind = ?) ORDER BY number LIMIT 1000",
                        (number, kind, kind),
                    ).fetchall()
                except sqlite3.Error as error:
                    raise StoreError(f"cannot read {self.path}: {error}") from None
            if not rows:
                return
            yield from (Entry(*row) for row in rows)
            number = rows[-1][0]

    def verify(self, noted: Head | None = None) -> list[Fault]:
        """Everything that is not as it was written. `noted`: a head that was kept elsewhere."""
        faults: list[Fault] = []
        last = Head(0, GENESIS)
        met = noted is None or noted == last
        for entry in self.entries():
            if entry.number != last.number + 1:
                faults.append(Fault(entry.number, f"follows entry {last.number}: a gap"))
            elif entry.previous != last.hash:
                faults.append(Fault(entry.number, "does not carry the hash of the entry before"))
            if entry.hash != self._hash(
                entry.number, entry.at, entry.kind, entry.body, entry.previous
            ):
                faults.append(Fault(entry.number, "does not have the hash of what it says"))
            last = Head(entry.number, entry.hash)
            met = met or last == noted
        stored = self.head()
        if stored != last:
            faults.append(
                Fault(0, f"the chain ends at entry {last.number}, the head says {stored.number}")
            )
        if not met and noted is not None:
            faults.append(Fault(0, f"entry {noted.number} with the noted hash is not in the chain"))
        return faults

    def _stored_head(self) -> Head | None:
        row = self._sqlite.execute("SELECT number, hash FROM head").fetchone()
        return None if row is None else Head(*row)

    def _hash(self, number: int, at: str, kind: str, body: str, previous: str) -> str:
        message = canonical([number, at, kind, body, previous]).encode()
        if self._key:
            return hmac.new(self._key, message, hashlib.sha256).hexdigest()
        return hashlib.sha256(message).hexdigest()


def canonical(value: object) -> str:
    """A value as it is hashed and kept."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
