"""API keys. A key is shown once, when it is made; only its hash is kept.

A key is `fmk_ID_SECRET`: 8 characters to find it by, 256 random bits to prove it. Such a secret cannot
be guessed, so one SHA-256 keeps it: a slow hash protects what people can remember, and would cost every
request 50 ms.

The file is JSON, readable by its owner alone, replaced in one step; a running server sees a change at
its next request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from fleetmark.access.rules import ROLES, Role
from fleetmark.errors import InputError, SettingsError

_KEY = re.compile(r"fmk_(?P<id>[0-9a-f]{8})_(?P<secret>[A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is kept. Times are ISO 8601 in UTC."""

    id: str
    name: str
    role: Role
    sha256: str
    created_at: str
    team: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None

    def valid(self, now: datetime) -> bool:
        expired = self.expires_at is not None and self.expires_at <= _stamp(now)
        return self.revoked_at is None and not expired


class KeyRing:
    """The keys of one file. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_at: tuple[int, int] | None = None
        self._keys: dict[str, Key] = {}

    def all(self) -> list[Key]:
        """Every key ever made, revoked ones too. Raises SettingsError for a broken file."""
        with self._lock:
            self._refresh()
            return list(self._keys.values())

    def known(self, text: str, now: datetime) -> Key | None:
        """The key that `text` proves, if it is one and still good."""
        parts = _KEY.fullmatch(text)
        if parts is None:
            return None
        with self._lock:
            self._refresh()
            key = self._keys.get(parts["id"])
        # A key that is not there is compared, too: the time taken tells nothing.
        right = hmac.compare_digest(_sha256(parts["secret"]), key.sha256 if key else "0" * 64)
        return key if key is not None and right and key.valid(now) else None

    def create(
        self,
        name: str,
        role: Role,
        now: datetime,
        *,
        team: str | None = None,
        days: int | None = None,
    ) -> str:
        """Make a key and return it, for the only time."""
        number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        expires = None if days is None else _stamp(now + timedelta(days=days))
        key = Key(number, name, role, _sha256(secret), _stamp(now), team, expires)
        self._write([*self.all(), key])
        return f"fmk_{number}_{secret}"

    def revoke(self, number: str, now: datetime) -> Key:
        """Make a key worthless; the record of it stays. Raises InputError for one unknown."""
        keys = {key.id: key for key in self.all()}
        if number not in keys:
            raise InputError(f"no key {number}: `fleetmark key list` shows them")
        keys[number] = replace(keys[number], revoked_at=_stamp(now))
        self._write(list(keys.values()))
        return keys[number]

    def _refresh(self) -> None:
        try:
            state = self._path.stat()
            seen = (state.st_mtime_ns, state.st_ino)
            if seen == self._read_at:
                return
            listed = json.loads(self._path.read_text(encoding="utf-8"))["keys"]
            found = [Key(**entry) for entry in listed]
        except FileNotFoundError:
            self._keys, self._read_at = {}, None
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SettingsError(f"{self._path} is no file of keys: {error}") from None
        if wrong := [key.role for key in found if key.role not in ROLES]:
            raise SettingsError(f"{self._path}: unknown role {wrong[0]!r}")
        self._keys, self._read_at = {key.id: key for key in found}, seen

    def _write(self, keys: list[Key]) -> None:
        text = json.dumps({"keys": [asdict(key) for key in keys]}, indent=1)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes it readable by its owner alone.
        handle, made = tempfile.mkstemp(dir=self._path.parent, prefix=".keys")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        Path(made).replace(self._path)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds") + "Z"
