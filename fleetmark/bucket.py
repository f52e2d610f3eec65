"""A bucket of an S3-compatible store, for reading whole objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obstore.store import S3Store

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config


def bucket_of(
    name: str, *, endpoint: str = "", region: str = "", key_id: str = "", secret: str = ""
) -> S3Store:
    """The bucket `name`. Without a key it is asked as the machine's own role; without endpoint, Amazon's."""
    config: S3Config = {"region": region or "us-east-1"}
    if key_id and secret:
        config["access_key_id"] = key_id
        config["secret_access_key"] = secret
    if endpoint:
        config["endpoint"] = endpoint
    options: ClientConfig = {"allow_http": endpoint.startswith("http://")}
    return S3Store(name, config=config, client_options=options)
