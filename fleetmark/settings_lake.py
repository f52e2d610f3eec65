"""What `[lake]` of the settings may say: a catalog in PostgreSQL, data files elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fleetmark.errors import SettingsError
from fleetmark.secret import Secret
from fleetmark.store_place import POSTGRES, Place


class _Lake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    catalog: str = ""
    password: Secret | None = None
    data: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None


def place_of(values: Mapping[str, Any], environment: Mapping[str, str], path: Path) -> Place:
    """The place, with the secrets that it names read. Raises SettingsError; no message holds a secret."""
    try:
        lake = msgspec.convert(values, _Lake)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{path}: [lake] {error}") from None
    if problem := _problem(lake):
        raise SettingsError(f"{path}: [lake] {problem}")
    read = {}
    for name in ("password", "access_key_id", "secret_access_key"):
        secret: Secret | None = getattr(lake, name)
        try:
            read[name] = secret.read(environment) if secret else ""
        except SettingsError as error:
            raise SettingsError(f"{path}: [lake] {name}: {error}") from None
    return Place(lake.catalog, data=lake.data, endpoint=lake.endpoint, region=lake.region, **read)


def _problem(lake: _Lake) -> str:
    """The first thing that is wrong, '' when nothing is."""
    if not lake.catalog:
        return "catalog is missing: postgres:host=HOST dbname=NAME user=NAME" if lake.data else ""
    wrong = {
        "catalog must begin with postgres: (postgres:host=HOST dbname=NAME user=NAME)": (
            not lake.catalog.startswith(POSTGRES)
        ),
        "catalog holds a password: write password = { file = … } or { env = … } instead": (
            _PASSWORD.search(lake.catalog)
        ),
        "data is missing: a folder that every machine sees, or s3://BUCKET/PREFIX": not lake.data,
        "data must be an absolute folder that every machine sees, or s3://BUCKET/PREFIX": (
            not lake.data.startswith(("/", "s3://"))
        ),
        "endpoint must begin with http:// or https://": (
            lake.endpoint and not lake.endpoint.startswith(("http://", "https://"))
        ),
    }
    return next((problem for problem, holds in wrong.items() if holds), "")


_PASSWORD = re.compile(r"\bpassword\s*=|://[^/@]*:[^/@]*@")
