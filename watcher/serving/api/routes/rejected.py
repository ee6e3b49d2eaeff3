"""`/api/v2/watchers/{name}/rejected`: items that a watcher could not emit, and retrying them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel

from store.catalog import watchers
from store.detection import rejections
from store.detection.rejections import RejectedRow
from store.processes import audit
from watcher.host.loops import Hint
from watcher.serving.api.context import Context
from watcher.serving.api.parameters import UnorderedWindow
from watcher.serving.api.shapes.base import JsonValue, Shape
from watcher.serving.api.sign_in.auth import Operator, Viewer
from watcher.serving.api.writes import new_write_id

router = APIRouter(prefix="/api/v2/watchers/{name}/rejected", tags=["Watcher"])


class RejectedItem(Shape):
    """A rejected row or file. `key` is its name in the event's `rejected`. `version` distinguishes contents of one key.

    `column` is the column that fails, if it is a single one. `sqlstate` is PostgreSQL's. `retry_at`: a retry was requested at
    this time, and the watcher has not processed it yet.
    """

    key: JsonValue
    version: str
    column: str | None
    sqlstate: str | None
    reason: str
    rejected_at: datetime
    retry_at: datetime | None

    @classmethod
    def of_row(cls, row: RejectedRow) -> RejectedItem:
        return cls.of(row, column=row.column_name, sqlstate=row.code or None)


class RejectedCollection(Shape):
    rejected: Sequence[RejectedItem]
    total_entries: int


class Retried(BaseModel):
    """The number of items that the watcher will retry."""

    retried: int


@router.get("")
async def list_rejected(context: Context, _: Viewer, name: str, window: UnorderedWindow) -> RejectedCollection:
    """List the rejected items of a watcher, oldest first."""
    async with context.database.reading() as connection:
        await watchers.asset_of(connection, name)
        page = await rejections.listed(connection, name, window)
    return RejectedCollection(rejected=[RejectedItem.of_row(row) for row in page.rows], total_entries=page.total)


@router.post("/retry")
async def retry_rejected(context: Context, actor: Operator, name: str) -> Retried:
    """Request a retry of all rejected items. The watcher emits those that are valid by now, drops those that no longer exist, and keeps the others."""
    async with context.database.transaction() as connection:
        await watchers.asset_of(connection, name)
        retried = await rejections.retry(connection, name)
        detail = {"items": retried}
        await audit.record(connection, actor.name, "watcher.rejected_retry", name, detail, new_write_id())
    context.hint(Hint(what="watchers", names=frozenset({name})))
    return Retried(retried=retried)
