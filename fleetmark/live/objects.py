"""Objects under a prefix of an S3-compatible store: listed at each look, new ones fetched and read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
import polars as pl
from obstore.exceptions import BaseError

from fleetmark.bucket import bucket_of
from fleetmark.catalog import Catalog
from fleetmark.errors import ServiceError
from fleetmark.live.inputs import ObjectStore
from fleetmark.live.status import Looked
from fleetmark.pipeline.run import ingest
from fleetmark.pipeline.write import showing
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.store_tables import OBJECT_SEEN

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Store

# Objects read between two commits of what has been seen; a kill reads these again, to no effect.
TOGETHER = 200


@dataclass
class Objects:
    """One prefix. An object is known by key and version (its ETag): one that changes is read again."""

    input: ObjectStore
    catalog: Catalog
    settings: Settings
    _seen: set[tuple[str, str]] | None = field(default=None)

    def __call__(self, store: Store, now: datetime) -> Looked:
        if self._seen is None:
            self._seen = set(
                store.connection.execute(
                    "SELECT object_key, version FROM lake.object_seen WHERE input = $1",
                    [self.input.name],
                ).fetchall()
            )
        rows = rejects = 0
        try:
            bucket = self._bucket()
            for slice_ in self._new(bucket):
                added, refused = self._read(store, bucket, slice_, now)
                rows += added
                rejects += refused
        except BaseError as error:
            raise ServiceError(f"{self.input.url}: {_first_line(error)}") from None
        return Looked(rows, rejects)

    def _bucket(self) -> S3Store:
        one, known = self.input, self.settings.environment
        key_id, secret = one.access_key_id, one.secret_access_key
        return bucket_of(
            urlsplit(one.url).netloc,
            endpoint=one.endpoint,
            region=one.region,
            key_id=key_id.read(known) if key_id and secret else "",
            secret=secret.read(known) if key_id and secret else "",
        )

    def _new(self, bucket: S3Store) -> Iterator[list[ObjectMeta]]:
        """What has not been seen, in order of key, a slice at a time."""
        waiting: list[ObjectMeta] = []
        prefix = urlsplit(self.input.url).path.lstrip("/")
        for page in obstore.list(bucket, prefix or None):
            waiting += [
                meta
                for meta in page
                if meta["size"] and (meta["path"], _version(meta)) not in (self._seen or ())
            ]
            while len(waiting) >= TOGETHER:
                yield waiting[:TOGETHER]
                del waiting[:TOGETHER]
        if waiting:
            yield waiting

    def _read(
        self, store: Store, bucket: S3Store, metas: list[ObjectMeta], now: datetime
    ) -> tuple[int, int]:
        """Fetch, ingest and note a slice; rows and rejects.

        The note comes after the rows: a kill in between reads these objects again, whose content is
        known by then.
        """
        scratch = store.root / "tmp"
        scratch.mkdir(exist_ok=True)
        rows = rejects = 0
        with tempfile.TemporaryDirectory(prefix="objects-", dir=scratch) as folder:
            for number, meta in enumerate(metas):
                place = Path(folder) / f"{number:04}"
                place.mkdir()
                path = place / meta["path"].rpartition("/")[2]
                with path.open("wb") as file:
                    for block in obstore.get(bucket, meta["path"]).stream():
                        file.write(block)
            for report in ingest(
                store, self.catalog, self.input.source, [Path(folder)], self.input.options,
                self.settings.sources, now,
            ):  # fmt: skip
                if report.state != "unchanged":
                    rows += report.row_count
                    rejects += report.reject_count
        self._note(store, metas, now)
        return rows, rejects

    def _note(self, store: Store, metas: list[ObjectMeta], now: datetime) -> None:
        keys = [(meta["path"], _version(meta)) for meta in metas]
        frame = pl.DataFrame(
            [(self.input.name, *key, meta["size"], now) for key, meta in zip(keys, metas, strict=True)],
            schema=OBJECT_SEEN.polars_schema(), orient="row",
        )  # fmt: skip

        def work() -> None:
            with showing(store, "seen", frame):
                store.connection.execute("INSERT INTO lake.object_seen BY NAME FROM seen")

        store.commit(work)
        if self._seen is not None:
            self._seen |= set(keys)


def _version(meta: ObjectMeta) -> str:
    return meta["e_tag"] or f"{meta['size']} {meta['last_modified'].isoformat()}"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
