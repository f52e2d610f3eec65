"""The section `[auth]` of the settings, checked once.

[auth]
requests_per_min = 600            # per key or person
keys = "keys.json"                # default: STORE/access/keys.json

[auth.oidc]
issuer = "https://login.example/realms/fleet"
audience = "fleetmark"
jwks_url = "https://…"            # default: what the issuer's discovery document names
role_claim = "roles"              # a text or a list
team_claim = "teams"              # when named, every token must carry it

[auth.oidc.roles]                 # value of the claim = role; without it, names of roles
fleet-admins = "admin"

[auth.teams.vision]               # rows must match each line given
cluster = ["h100-a"]
account = ["vision"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fleetmark.errors import SettingsError
from fleetmark.settings import Settings

Role = Literal["viewer", "planner", "security", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
_DEFAULT_RATE = 600
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows of a team: those of these clusters and of these accounts. None: of any."""

    cluster: tuple[str, ...] | None = None
    account: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Oidc:
    """Whose tokens are taken, and which of their claims say what."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    role_claim: str = "roles"
    team_claim: str | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rules:
    """The section, with its defaults. `stated`: the settings have it, so nobody enters unknown."""

    keys: Path
    stated: bool = False
    requests_per_min: int = _DEFAULT_RATE
    oidc: Oidc | None = None
    teams: Mapping[str, Scope] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether requests must say who sends them: from the first key on, or when so set."""
        return self.stated or self.keys.exists()


def rules_of(settings: Settings) -> Rules:
    """Raises SettingsError naming the key and what is allowed."""
    given = dict(settings.auth)
    _refuse_unknown(given, {"requests_per_min", "keys", "oidc", "teams"}, "[auth]")
    rate = given.get("requests_per_min", _DEFAULT_RATE)
    if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
        raise SettingsError(f"[auth] requests_per_min is {rate!r}: write a whole number from 1")
    keys = given.get("keys", settings.store / "access" / "keys.json")
    oidc = given.get("oidc")
    return Rules(
        keys=Path(_text(keys, "keys") if isinstance(keys, str) else keys),
        stated=bool(settings.auth),
        requests_per_min=rate,
        oidc=None if oidc is None else _oidc(oidc),
        teams={
            name: _scope(name, team) for name, team in _mapping(given, "teams", "[auth]").items()
        },
    )


def _oidc(given: Any) -> Oidc:  # noqa: ANN401 - as TOML gives it
    if not isinstance(given, dict):
        raise SettingsError("[auth.oidc] must hold NAME = value lines")
    fields = {"issuer", "audience", "jwks_url", "role_claim", "team_claim", "roles"}
    _refuse_unknown(given, fields, "[auth.oidc]")
    for name in ("issuer", "audience"):
        if name not in given:
            raise SettingsError(f"[auth.oidc] needs {name}")
    values = {
        name: _text(given[name], f"oidc.{name}") for name in fields - {"roles"} if name in given
    }
    for name in ("issuer", "jwks_url"):
        if not values.get(name, "https://").startswith(("https://", "http://127.0.0.1")):
            raise SettingsError(f"[auth.oidc] {name}: must begin with https://")
    roles = _mapping(given, "roles", "[auth.oidc]")
    if wrong := [role for role in roles.values() if role not in ROLES]:
        raise SettingsError(f"[auth.oidc.roles] {wrong[0]!r}: roles are {', '.join(ROLES)}")
    return Oidc(roles=roles or {role: role for role in ROLES}, **values)


def _scope(name: str, given: Any) -> Scope:  # noqa: ANN401 - as TOML gives it
    where = f"[auth.teams.{name}]"
    if not isinstance(given, dict) or not given:
        raise SettingsError(f"{where} must say cluster = [...], account = [...] or both")
    _refuse_unknown(given, {"cluster", "account"}, where)
    for key, values in given.items():
        if (
            not isinstance(values, list)
            or not values
            or not all(isinstance(v, str) for v in values)
        ):
            raise SettingsError(f"{where} {key}: write a list of names")
    return Scope(**{key: tuple(values) for key, values in given.items()})


def _mapping(given: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    found = given.get(key, {})
    if not isinstance(found, dict):
        raise SettingsError(f"{where} {key} must hold NAME = value lines")
    return found


def _text(value: Any, key: str) -> str:  # noqa: ANN401 - as TOML gives it
    if not isinstance(value, str) or not value:
        raise SettingsError(f"[auth] {key} is {value!r}: write its value in quotes")
    return value


def _refuse_unknown(given: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(given) - known):
        raise SettingsError(
            f"{where}: unknown setting {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
