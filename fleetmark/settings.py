"""Settings: one frozen object, read once at the edge (the command line, `create_app`).

Order: the command line over environment (`FLEETMARK_STORE`, `FLEETMARK_RUN_LISTEN`,
`FLEETMARK_LAKE_CATALOG`, `FLEETMARK_INPUTS_NAME_KEY` …) over the TOML file over defaults. The file is
`--config`, else FLEETMARK_CONFIG, else `fleetmark.toml` here if it exists. Unknown keys are errors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetmark.errors import SettingsError
from fleetmark.settings_lake import place_of
from fleetmark.store_place import Place

DEFAULT_STORE = Path(".fleetmark")
DEFAULT_FILE = Path("fleetmark.toml")
CHANNEL_KINDS = ("json", "ocsf", "alertmanager", "apprise")
_TOP = {"store", "memory_mb", "sources", "params", "webhooks", "inputs", "run", "auth", "lake"}


@dataclass(frozen=True, slots=True)
class Webhook:
    """A channel that gets each finding of at least `min_severity` once.

    kind    json (the finding), ocsf (Detection Finding) or alertmanager (API v2) by POST, or apprise: the URL
            is one of Apprise's for Slack, Teams, PagerDuty, e-mail and others
    secret  what a POST is signed with; '' for none

    The URL may come from the environment variable or file named instead of it, since it can hold
    a secret. Where that gives none, `missing` says so: commands that send nothing need no secret,
    and what is to be sent waits.
    """

    name: str
    url: str
    min_severity: str = "medium"
    missing: str = ""
    kind: str = "json"
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. `sources` and `params` hold values by source and by model.

    `inputs`, `run` and `auth` are as written: `fleetmark.live.inputs` and `fleetmark.access.rules` say what
    they may hold, and whoever runs neither does not care. `path` is the file, if there is one; `environment` is where
    secrets may stand.
    """

    store: Path = DEFAULT_STORE
    memory_mb: int = 2048
    lake: Place = field(default_factory=Place)
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    params: Mapping[str, Mapping[str, float | int | str | bool]] = field(default_factory=dict)
    webhooks: tuple[Webhook, ...] = ()
    path: Path | None = None
    inputs: tuple[Mapping[str, Any], ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    auth: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def options(self, source: str, stated: Mapping[str, str]) -> dict[str, str]:
        """Options of a source: those of its section, and over them what was stated."""
        return {**self.sources.get(source, {}), **stated}


def load_settings(
    environment: Mapping[str, str], *, config: Path | None = None, store: Path | None = None
) -> Settings:
    """Read the settings. Raises SettingsError naming the file, the key and what is allowed."""
    named = config or (Path(environment["FLEETMARK_CONFIG"]) if environment.get("FLEETMARK_CONFIG")
                       else None)  # fmt: skip
    path = named or DEFAULT_FILE
    values: dict[str, Any] = {}
    if named is not None or path.exists():
        values = _read(path)
    if unknown := set(values) - _TOP:
        raise SettingsError(
            f"{path}: unknown setting {', '.join(sorted(unknown))}; "
            f"there are {', '.join(sorted(_TOP))}"
        )
    memory = environment.get("FLEETMARK_MEMORY_MB", values.get("memory_mb", 2048))
    if not str(memory).isdigit() or int(memory) < 256:
        raise SettingsError(f"memory_mb is {memory!r}: it must be a whole number of at least 256")
    chosen = store or environment.get("FLEETMARK_STORE") or values.get("store", DEFAULT_STORE)
    if not isinstance(chosen, str | Path) or not str(chosen):
        raise SettingsError(f"store is {chosen!r}: it must name a folder")
    sources = _sections(values, "sources", path)
    for name, options in sources.items():
        if wrong := [key for key, value in options.items() if not isinstance(value, str)]:
            raise SettingsError(f"{path}: [sources.{name}] {wrong[0]}: write its value in quotes")
    return Settings(
        store=Path(chosen),
        memory_mb=int(memory),
        lake=place_of(
            _table(values, "lake", path) | _overrides(environment, "FLEETMARK_LAKE_"),
            environment,
            path,
        ),
        sources=sources,
        params=_sections(values, "params", path),
        webhooks=tuple(
            _webhook(w, environment, path) for w in _list_of_tables(values, "webhooks", path)
        ),
        path=path if values else None,
        environment=environment,
        inputs=tuple(
            entry | _overrides(environment, f"FLEETMARK_INPUTS_{entry.get('name', '')}_")
            for entry in _list_of_tables(values, "inputs", path)
        ),
        run=_table(values, "run", path) | _overrides(environment, "FLEETMARK_RUN_"),
        auth=_table(values, "auth", path),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _sections(values: Mapping[str, Any], key: str, path: Path) -> dict[str, dict[str, Any]]:
    section = values.get(key, {})
    if not isinstance(section, dict) or not all(isinstance(v, dict) for v in section.values()):
        raise SettingsError(f"{path}: [{key}.NAME] must hold NAME = value lines")
    return section


def _table(values: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    table = values.get(key, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: [{key}] must hold NAME = value lines")
    return table


def _overrides(environment: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """KEY = value for each variable PREFIX + KEY; written as in TOML, text without quotes too."""
    found: dict[str, Any] = {}
    start = prefix.upper().replace("-", "_")
    for name, text in environment.items():
        if name.startswith(start):
            try:
                found[name[len(start) :].lower()] = tomllib.loads(f"v = {text}")["v"]
            except tomllib.TOMLDecodeError:
                found[name[len(start) :].lower()] = text
    return found


def _list_of_tables(values: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    entries = values.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise SettingsError(f"{path}: write [[{key}]], once for each")
    return entries


def _webhook(value: Mapping[str, Any], environment: Mapping[str, str], path: Path) -> Webhook:
    allowed = {
        "name",
        "url",
        "url_env",
        "url_file",
        "min_severity",
        "kind",
        "secret_env",
        "secret_file",
    }
    if unknown := set(value) - allowed:
        raise SettingsError(f"{path}: [[webhooks]] has unknown {', '.join(sorted(unknown))}")
    given = [key for key in ("url", "url_env", "url_file") if key in value]
    if "name" not in value or len(given) != 1:
        raise SettingsError(f"{path}: [[webhooks]] needs name and one of url, url_env, url_file")
    url, missing = _secret(given[0], str(value[given[0]]), environment)
    secret = ""
    for key in ("secret_env", "secret_file"):
        if key in value and not missing:
            secret, missing = _secret(key, str(value[key]), environment)
    severity, kind = str(value.get("min_severity", "medium")), str(value.get("kind", "json"))
    return webhook(str(value["name"]), url, severity, missing, kind, secret)


def _secret(key: str, given: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """What is given, or named by a variable (`…_env`) or a file (`…_file`); or '' and why there is none."""
    if key.endswith("_env"):
        found = environment.get(given, "")
        return found, "" if found else f"{key}: the environment variable {given} is not set"
    if key.endswith("_file"):
        try:
            found = Path(given).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            return "", f"{key} {given}: {reason}"
        return found, "" if found else f"{key} {given}: is empty"
    return given, ""


def webhook(
    name: str,
    url: str,
    min_severity: str = "medium",
    missing: str = "",
    kind: str = "json",
    secret: str = "",
) -> Webhook:
    """A checked channel. Raises SettingsError; its message never shows the URL."""
    if kind not in CHANNEL_KINDS:
        raise SettingsError(f"webhook {name}: kind {kind!r} is none of {', '.join(CHANNEL_KINDS)}")
    if not missing and kind != "apprise" and not url.startswith(("http://", "https://")):
        raise SettingsError(f"webhook {name}: its URL must begin with http:// or https://")
    if min_severity not in ("info", "low", "medium", "high", "critical"):
        raise SettingsError(f"webhook {name}: unknown min_severity {min_severity!r}")
    return Webhook(name, url, min_severity, missing, kind, secret)
