"""People and tools tell that an asset changed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from store.catalog import assets
from store.detection import events as stored
from store.detection.events import NewEvent
from store.errors import NotFound
from store.processes import audit
from store.values import to_json
from watcher.api.auth import Actor
from watcher.api.context import ApiContext
from watcher.api.parameters import BIGGEST
from watcher.api.writes import new_write_id


async def create(context: ApiContext, actor: Actor, asset_id: int, extra: Mapping[str, Any] | None) -> int:
    """Store an event of an active asset with its queue rows; returns its id. Raises `NotFound`, `InvalidValue`.

    As in Airflow the server marks what came through the API, but only where the caller gave an `extra`.
    """
    text = to_json({} if extra is None else {**extra, "from_rest_api": True})
    if not 0 <= asset_id <= BIGGEST:
        raise NotFound(f"no asset {asset_id}; `watcher assets list` shows the ones there are")
    async with context.database.transaction() as connection:
        asset = await assets.asset_by(connection, asset_id=asset_id)
        if not asset["active"]:
            raise NotFound(f"the asset {asset['name']!r} is not active; configure it again to tell of its events")
        event = NewEvent(asset_id=asset_id, extra=text, trace_id=uuid.uuid4().hex, source_actor=actor.name)
        (event_id,) = await stored.append(connection, [event])
        await audit.record(
            connection,
            actor=actor.name,
            action="asset_event.create",
            target=asset["name"],
            detail={"event_id": event_id},
            write_id=new_write_id(),
        )
    context.wake()
    return event_id
