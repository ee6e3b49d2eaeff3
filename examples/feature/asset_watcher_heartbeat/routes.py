"""`GET /api/v2/x/heartbeat/beats`: the newest heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from asset_watcher_heartbeat import tables
from watcher.serving.api.context import Context
from watcher.serving.api.sign_in.auth import Viewer

router = APIRouter(prefix="/beats")
ROUTERS = (router,)
Limit = Annotated[int, Query(ge=1, le=1_000)]


class Beat(BaseModel):
    at: str
    failure: str | None


class BeatList(BaseModel):
    beats: Sequence[Beat]


@router.get("")
async def beats(context: Context, _: Viewer, limit: Limit = 10) -> BeatList:
    """Return the newest heartbeats."""
    async with context.database.reading() as connection:
        rows = await tables.newest(connection, limit)
    beats = [Beat(at=row.at, failure=row.failure) for row in rows]
    return BeatList(beats=beats)
