"""Everything that is wrong with the settings, not only the first mistake; and what they leave unsaid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from fleetmark.catalog import Catalog
from fleetmark.errors import SettingsError
from fleetmark.live.inputs import Input, inputs_of, run_of
from fleetmark.pipeline.run import AUTO, check_settings
from fleetmark.pipeline.thresholds import check
from fleetmark.secret import Secret
from fleetmark.settings import Settings, load_settings

EXAMPLE_ZONE = "Europe/Berlin"


def mistakes(
    catalog: Catalog,
    environment: Mapping[str, str],
    config: Path | None = None,
    store: Path | None = None,
) -> list[str]:
    """A line for each mistake: file, section, what was found and what is allowed."""
    try:
        settings = load_settings(environment, config=config, store=store)
    except SettingsError as error:
        return [str(error)]
    if settings.path is None:
        return ["no settings file: write fleetmark.toml here, or name one with --config"]
    inputs, found = inputs_of(settings.inputs, catalog, settings.path)
    found += run_of(settings.run, catalog, settings.path)[1]
    found += [
        f"{settings.path}: [[webhooks]] {w.name}: {w.missing}"
        for w in settings.webhooks
        if w.missing
    ]
    for one in inputs:
        found += [
            f"{settings.path}: [[inputs]] {one.name}: {problem}"
            for problem in _secrets(one, environment)
        ]
    for name, options in settings.sources.items():
        found += _said(settings.path, partial(check_settings, catalog, {name: options}))
    for name, params in settings.params.items():
        found += _said(settings.path, partial(check, catalog, {name: params}))
    return found


def hints(
    catalog: Catalog,
    environment: Mapping[str, str],
    config: Path | None = None,
    store: Path | None = None,
) -> list[str]:
    """What right settings leave unsaid: the zone, where an input's times may carry none."""
    settings = load_settings(environment, config=config, store=store)
    if settings.path is None:
        return []
    found = []
    for one in inputs_of(settings.inputs, catalog, settings.path)[0]:
        zoneless = _zoneless(one, catalog, settings)
        if zoneless:
            where = f"options = {{ tz = {EXAMPLE_ZONE!r} }} there"
            if one.source != AUTO:
                where += f", or [sources.{one.source}] tz = {EXAMPLE_ZONE!r}"
            found.append(
                f"{settings.path}: [[inputs]] {one.name}: tz is not stated. {', '.join(zoneless)}: times that "
                "carry no zone are not guessed; their lines are refused, or kept without a time. If these "
                f"logs hold such times, write {where}"
            )
    return found


def _zoneless(one: Input, catalog: Catalog, settings: Settings) -> list[str]:
    """Sources of an input whose formats have times without a zone, and for which nobody states it."""
    if not one.needs_source or "tz" in one.options:
        return []
    return [
        source.name
        for source in catalog.sources.values()
        if one.source in (source.name, AUTO)
        if "tz" not in settings.sources.get(source.name, {})
        if any(option.name == "tz" and option.default is None for option in source.options)
    ]


def _said(path: Path, judge: Callable[[], None]) -> list[str]:
    try:
        judge()
    except SettingsError as error:
        return [f"{path}: {error}"]
    return []


def _secrets(one: Input, environment: Mapping[str, str]) -> list[str]:
    """Secrets that cannot be read here and now."""
    found = []
    for name in one.__struct_fields__:
        value = getattr(one, name)
        if isinstance(value, Secret):
            try:
                value.read(environment)
            except SettingsError as error:
                found.append(f"{name}: {error}")
    return found
