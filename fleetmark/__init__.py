"""Fleetmark: what a GPU fleet's own logs say about useful work, drag and theft.

The core. It imports none of the folders `ingest`, `models`, `detectors`, `api`, `dashboards`; they
are installed as `fleetmark.ingest` and so on, and import only this package and their siblings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetmark.client import Fleet

__version__ = "0.1.0"


def connect(url: str, *, key: str | None = None) -> Fleet:
    """An API at `url`, to be asked from programs and notebooks: see `fleetmark.client.Fleet`."""
    from fleetmark.client import Fleet  # noqa: PLC0415 - the command must not wait for Polars

    return Fleet(url, key)
