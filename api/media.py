"""Formats of answers and the media types that name them."""

from __future__ import annotations

from fleetmark.query.formats import Format

from .problems import Problem

MEDIA_TYPES: dict[str, Format] = {
    "application/json": "json",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.parquet": "parquet",
    "text/csv": "csv",
    "application/x-ndjson": "ndjson",
}
_ANY = {"*/*": "application/json", "application/*": "application/json", "text/*": "text/csv"}


def accepted(header: str) -> str:
    """The offered media type that an Accept header prefers. Raises Problem 406 when there is none."""
    ranked: list[tuple[float, str]] = []
    for item in header.split(","):
        media, *parts = (part.strip().lower() for part in item.split(";"))
        weights = [part[2:] for part in parts if part.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            weight = 0.0
        ranked.append((weight, _ANY.get(media, media)))
    # sorted() keeps the client's order among equals
    for weight, media in sorted(ranked, key=lambda pair: -pair[0]):
        if weight > 0 and media in MEDIA_TYPES:
            return media
    raise Problem(406, "No such format", f"answers come as {', '.join(MEDIA_TYPES)}")
