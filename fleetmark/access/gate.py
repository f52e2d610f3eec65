"""From a request's headers to who sends it, or to a refusal.

Three ways to say it, of which a browser asks for the last by itself: `Authorization: Bearer KEY`,
`Authorization: Bearer JWT`, `Authorization: Basic` with the key as password (any user name).
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from fleetmark.access.keys import KeyRing
from fleetmark.access.rules import LOOPBACK, Role, Rules, Scope
from fleetmark.access.tokens import TokenRefusedError, Tokens

_MAX_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `scopes`: rows that match any of them; None: all rows."""

    name: str
    role: Role
    scopes: tuple[Scope, ...] | None = None

    @property
    def privileged(self) -> bool:
        """Whether storage access and findings of security are to be seen."""
        return self.role in ("security", "admin")

    @property
    def may_ask_sql(self) -> bool:
        return self.role != "viewer"


ANYBODY = Principal("anonymous", "admin")
"""Whoever reaches an API without authentication: it serves this machine only."""


class RefusedError(Exception):
    """A request that may not go on. `retry_s`: after which time it may be sent again."""

    def __init__(self, status: int, title: str, detail: str, retry_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.retry_s = retry_s


class Gate:
    """Knows callers and counts their requests. Safe to use from several threads."""

    def __init__(self, rules: Rules, clock: Callable[[], datetime]) -> None:
        self.rules = rules
        self._clock = clock
        self._keys = KeyRing(rules.keys)
        self._tokens = None if rules.oidc is None else Tokens(rules.oidc)
        self._rates = Rates(rules.requests_per_min)

    def admit(self, authorization: str | None) -> Principal:
        """Who sent this header. Raises RefusedError, SettingsError, ServiceUnreachableError."""
        if not self.rules.active:
            return ANYBODY
        principal = self._known(authorization)
        wait_s = self._rates.wait_s(principal.name)
        if wait_s > 0:
            raise RefusedError(
                429,
                "Too many requests",
                f"{self.rules.requests_per_min} a minute are allowed",
                int(wait_s) + 1,
            )
        return principal

    def meant(self, host: str) -> bool:
        """Whether a request with this Host header was meant for this server.

        Where nobody is asked who they are, a name that is not this machine's is a page elsewhere whose name
        was pointed here (DNS rebinding): a browser would let it read the answers.
        """
        if self.rules.active:
            return True
        try:
            return urlsplit(f"//{host}").hostname in LOOPBACK
        except ValueError:
            return False

    def _known(self, authorization: str | None) -> Principal:
        if not authorization:
            raise _unknown("send an API key or a token: Authorization: Bearer …")
        kind, _, text = authorization.partition(" ")
        credential = text.strip() if kind.lower() == "bearer" else _password(kind, text)
        key = self._keys.known(credential, self._clock())
        if key is not None:
            teams = None if key.team is None else (key.team,)
            return Principal(f"key:{key.id}:{key.name}", key.role, self._scopes(teams))
        if self._tokens is None or credential.count(".") != 2:
            raise _unknown("the key is unknown, expired or revoked")
        try:
            claims = self._tokens.known(credential)
        except TokenRefusedError as refusal:
            raise _unknown(str(refusal)) from None
        return Principal(f"oidc:{claims.subject}", claims.role, self._scopes(claims.teams))

    def _scopes(self, teams: tuple[str, ...] | None) -> tuple[Scope, ...] | None:
        """Unknown teams see nothing: a team that was removed must not open the whole fleet."""
        if teams is None:
            return None
        scopes = tuple(self.rules.teams[team] for team in teams if team in self.rules.teams)
        if not scopes:
            raise RefusedError(
                403, "No such team", f"the settings know no team {', '.join(teams)} ([auth.teams])"
            )
        return scopes


class Rates:
    """A bucket of requests for each caller, refilled evenly; a minute's worth may come at once."""

    def __init__(self, per_min: int) -> None:
        self._per_min = per_min
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def wait_s(self, caller: str) -> float:
        """0 when the request may go on, else the seconds until it may."""
        now = time.monotonic()
        with self._lock:
            if len(self._left) > _MAX_CALLERS:
                self._left.clear()
            left, seen = self._left.get(caller, (float(self._per_min), now))
            left = min(float(self._per_min), left + (now - seen) * self._per_min / 60)
            if left < 1:
                self._left[caller] = (left, now)
                return (1 - left) * 60 / self._per_min
            self._left[caller] = (left - 1, now)
            return 0.0


def _password(kind: str, text: str) -> str:
    if kind.lower() != "basic":
        raise _unknown("send Authorization: Bearer …, or Basic with the key as password")
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        raise _unknown("the Basic credentials are not Base64") from None


def _unknown(detail: str) -> RefusedError:
    return RefusedError(401, "Who are you?", detail)
