"""Parameters of models and detectors: the settings' values over the defaults, checked."""

from __future__ import annotations

from collections.abc import Mapping
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
