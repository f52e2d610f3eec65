"""Parameters of models and detectors: the settings' values over the defaults, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from fleetmark.catalog import Catalog
from fleetmark.errors import SettingsError
from fleetmark.model import Model, Param, Params


def check(catalog: Catalog, params: Mapping[str, Params]) -> None:
    """Raise SettingsError for a section of a model or detector that does not exist, and for values
    that do not fit.
    """
    readers = {**catalog.models, **{d.name: d.model for d in catalog.detectors.values()}}
    for name, overrides in params.items():
        if name not in readers:
            raise SettingsError(
                f"[params.{name}]: no such model or detector; there are {', '.join(readers)}"
            )
        resolved(readers[name], overrides)


def resolved(model: Model, overrides: Params) -> dict[str, float | int | str | bool]:
    """The model's parameters with the settings' values over the defaults. Raises SettingsError."""
    if unknown := set(overrides) - set(model.params):
        raise SettingsError(
            f"{model.name} has no parameter {', '.join(sorted(unknown))}; it has "
            f"{', '.join(sorted(model.params)) or 'none'}"
        )
    for name, value in overrides.items():
        if problem := _problem(model.params[name], value):
            raise SettingsError(f"[params.{model.name}] {name} = {value!r}: {problem}")
    return {name: overrides.get(name, p.default) for name, p in model.params.items()}


def parse(
    catalog: Catalog, rule: str, stated: Sequence[str]
) -> dict[str, dict[str, float | int | str | bool]]:
    """Parameters written as NAME=VALUE (of `rule`) or MODEL.NAME=VALUE, by model or detector.

    Raises SettingsError for what does not exist or has a value of another kind.
    """
    readers = {**catalog.models, **{d.name: d.model for d in catalog.detectors.values()}}
    values: dict[str, dict[str, float | int | str | bool]] = {}
    for text in stated:
        path, sign, value = text.partition("=")
        reader, _, name = path.rpartition(".")
        reader = reader or rule
        if not sign or reader not in readers or name not in readers[reader].params:
            known = [n for r, m in readers.items() for n in m.params if r == reader]
            raise SettingsError(
                f"--set {text}: no such parameter; write NAME=VALUE or MODEL.NAME=VALUE; {reader} "
                f"has {', '.join(known) or 'none'}"
            )
        values.setdefault(reader, {})[name] = _typed(text, value, readers[reader].params[name])
    return values


def _typed(text: str, value: str, param: Param) -> float | int | str | bool:
    if isinstance(param.default, str):
        return value
    if isinstance(param.default, bool):
        if value not in ("true", "false"):
            raise SettingsError(f"--set {text}: it must be true or false")
        return value == "true"
    try:
        return float(value) if "." in value or "e" in value.lower() else int(value)
    except ValueError:
        raise SettingsError(f"--set {text}: it must be a number") from None


def _problem(param: Param, value: object) -> str:
    if isinstance(param.default, bool | str):
        kind = type(param.default)
        return "" if isinstance(value, kind) else f"it must be a {kind.__name__}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return "it must be a number"
    if value < 0:
        return "it must not be negative"
    if param.most is not None and value > param.most:
        return f"it must be at most {param.most}"
    return ""
