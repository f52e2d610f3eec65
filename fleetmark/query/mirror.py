"""Copies of data files that are objects, so that query workers need neither network nor secrets.

A data file never changes once it is written: a copy is right for as long as it is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError

from fleetmark.bucket import bucket_of
from fleetmark.errors import StoreError
from fleetmark.store_place import Place

# Longer than any answer may take; what a newer snapshot no longer lists goes after that.
KEEP_S = 3600.0


class Mirror:
    """The copies of one store on this machine, fetched when first asked for. Safe to use from threads."""

    def __init__(self, place: Place, root: Path) -> None:
        self.folder = place.folder(root)
        parts = urlsplit(place.data_path(root))
        self._prefix = parts.path.lstrip("/")
        self._bucket = bucket_of(
            parts.netloc,
            endpoint=place.endpoint,
            region=place.region,
            key_id=place.access_key_id,
            secret=place.secret_access_key,
        )
        self._lock = threading.Lock()

    def fetch(self, paths: Iterable[str]) -> None:
        """Have these files here. Raises StoreError for one that cannot be read."""
        missing = [path for path in map(Path, paths) if not path.exists()]
        if not missing:
            return
        with self._lock:
            for path in missing:
                if not path.exists():
                    self._copy(path)

    def _copy(self, path: Path) -> None:
        key = self._prefix + str(path.relative_to(self.folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(".new")
        try:
            with made.open("wb") as file:
                for block in obstore.get(self._bucket, key).stream():
                    file.write(block)
        except BaseError as error:
            said = str(error).strip().split("\n", 1)[0][:300]
            raise StoreError(f"cannot read the data file {key}: {said}") from None
        made.replace(path)

    def tidy(self, listed: Iterable[str], now_s: float) -> None:
        """Remove copies that are not `listed` and were made longer ago than any answer takes."""
        kept = set(listed)
        for path in self.folder.rglob("*.parquet"):
            if str(path) not in kept and now_s - path.stat().st_mtime > KEEP_S:
                path.unlink(missing_ok=True)
