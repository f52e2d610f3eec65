"""OIDC bearer tokens, judged with PyJWT and the issuer's published keys.

Taken: a signed JWT (asymmetric algorithms only, so that a published key can never be used as a shared
secret) of the set issuer and audience, within its time, with a subject. The role is the highest that its
role claim gives; one without a role is refused.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from fleetmark.access.rules import ROLES, Oidc, Role
from fleetmark.errors import ServiceUnreachableError

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")  # fmt: skip
_LEEWAY_S = 30
_TIMEOUT_S = 10


class TokenRefusedError(Exception):
    """Why a token is not taken, in words for its owner."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a good token says. `teams` is None where no team claim is set."""

    subject: str
    role: Role
    teams: tuple[str, ...] | None


class Tokens:
    """Judges tokens of one issuer. Keys are fetched at first use and when an unknown one is named."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._keys: jwt.PyJWKClient | None = None
        self._lock = threading.Lock()

    def known(self, token: str) -> Claims:
        """Raises TokenRefusedError, or ServiceUnreachableError when the issuer's keys cannot be had."""
        try:
            key = self._client().get_signing_key_from_jwt(token)
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(_ALGORITHMS),
                audience=self._oidc.audience,
                issuer=self._oidc.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWKClientConnectionError as error:
            raise ServiceUnreachableError(
                f"the issuer's keys cannot be fetched: {error}: try again"
            ) from None
        except jwt.PyJWTError as error:
            raise TokenRefusedError(f"the token is not taken: {error}") from None
        return self._claims(claims)

    def _client(self) -> jwt.PyJWKClient:
        with self._lock:
            if self._keys is None:
                url = self._oidc.jwks_url or _discovered(self._oidc.issuer)
                self._keys = jwt.PyJWKClient(url, timeout=_TIMEOUT_S)
            return self._keys

    def _claims(self, claims: Mapping[str, Any]) -> Claims:
        held = {
            self._oidc.roles[value]
            for value in _texts(claims.get(self._oidc.role_claim))
            if value in self._oidc.roles
        }
        if not held:
            raise TokenRefusedError(
                f"the claim {self._oidc.role_claim} of the token names no role here"
            )
        teams = None
        if self._oidc.team_claim is not None:
            teams = _texts(claims.get(self._oidc.team_claim))
            if not teams:
                raise TokenRefusedError(f"the token has no claim {self._oidc.team_claim}")
        return Claims(str(claims["sub"]), max(held, key=ROLES.index), teams)


def _texts(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever the issuer put there
    values = value if isinstance(value, list) else [value]
    return tuple(v for v in values if isinstance(v, str))


def _discovered(issuer: str) -> str:
    """`jwks_uri` of the discovery document (OpenID Connect Discovery 1.0, section 4)."""
    address = issuer.rstrip("/") + "/.well-known/openid-configuration"
    try:
        # The settings allow https, and http to this machine; nothing a request says gets here.
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see above
            return str(json.load(answer)["jwks_uri"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServiceUnreachableError(
            f"{address} does not name the issuer's keys: {error}"
        ) from None
