"""Addresses of services that are asked over HTTP."""

from __future__ import annotations

from urllib.parse import urlsplit

from fleetmark.errors import InputError


def service_address(url: str, service: str, example: str) -> str:
    """The address without a closing slash. Raises InputError, which shows no password.

    `service` names it with its article, `example` is an address such as http://HOST:9090.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"{url} is no address of {service}: write {example}")
    if parts.username or parts.password:
        raise InputError(
            "the URL holds a password, which lists of processes show: put it into ~/.netrc"
        )
    return url.rstrip("/")
