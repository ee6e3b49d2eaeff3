"""People and tools tell that an asset changed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from store.detection import events
from store.detection.events import AssetEvent, NewEvent
from store.errors import no_asset
from store.processes import audit
from store.values import to_json
from watcher.api.auth import Actor
from watcher.api.context import ApiContext
from watcher.api.parameters import BIGGEST
from watcher.api.writes import new_write_id
from watcher.wakeups import Hint


async def create(context: ApiContext, actor: Actor, asset_id: int, extra: Mapping[str, Any] | None) -> AssetEvent:
    """Store an event of an active asset with its queue rows. Raises `NotFound`, `InvalidValue`.

    As in Airflow the server marks what came through the API, but only where the caller gave an `extra`.
    """
    text = to_json({} if extra is None else {**extra, "from_rest_api": True})
    if not 0 <= asset_id <= BIGGEST:
        raise no_asset(asset_id)
    new = NewEvent(asset_id=asset_id, extra=text, trace_id=uuid.uuid4().hex, source_actor=actor.name)
    async with context.database.transaction() as connection:
        asset = await events.active_asset(connection, asset_id)
        appended = await events.append(connection, [new])
        event = AssetEvent.appended(new, asset, *appended.rows[0])
        await audit.record(
            connection,
            actor=actor.name,
            action="asset_event.create",
            target=asset.name,
            detail={"event_id": event.id},
            write_id=new_write_id(),
        )
    if appended.dag_ids:
        context.hint(Hint(what="queues", names=appended.dag_ids))
    return event
