"""`/healthz`: whether the store can be read, and how old what it shows is."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

import fleetmark

from .lake import Lake

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The store is readable (a store that is not answers 503 with a problem document)."""

    status: str
    version: str
    snapshot: int
    snapshot_at: str = Field(description="when the newest snapshot was committed, ISO 8601 UTC")
    snapshot_age_s: float


@router.get("/healthz")
def healthz(request: Request) -> Health:
    """The newest snapshot and its age."""
    lake: Lake = request.app.state.lake
    snapshot = lake.snapshot()
    age = datetime.now(UTC).replace(tzinfo=None) - snapshot.created_at
    return Health(
        status="ok",
        version=fleetmark.__version__,
        snapshot=snapshot.id,
        snapshot_at=snapshot.created_at.isoformat() + "Z",
        snapshot_age_s=round(age.total_seconds(), 3),
    )
