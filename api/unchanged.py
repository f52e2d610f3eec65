"""304 for the small documents: they are the same while the store and the caller's part of it are."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response

from fleetmark.query.snapshot import Snapshot


class UnchangedError(Exception):
    """The client has this answer already. Sent as 304."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__("unchanged")
        self.headers = headers


def mark(request: Request, response: Response, snapshot: Snapshot) -> None:
    """Name the answer in its headers. Raises UnchangedError when the client has it."""
    state = f"{request.url.path}?{request.url.query}|{snapshot.id}|{snapshot.created_at}|{snapshot.scope}"
    etag = f'"{hashlib.sha256(state.encode()).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if etag in request.headers.get("if-none-match", ""):
        raise UnchangedError(headers)
    response.headers.update(headers)
