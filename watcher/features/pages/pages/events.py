"""The page of one event: all its items, the rest of its `extra`, its source, and the runs that consumed it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Query, Response

from store.detection import event_lists
from store.features.pages.run_causes import causes_of
from store.runs import consumption
from watcher.features.pages.event_items import facts_of, items_of, part_of, without_items
from watcher.features.pages.rendering import Pages
from watcher.serving.api.parameters import BIGGEST, EventId

router = APIRouter(include_in_schema=False)


@router.get("/events/{event_id}")
async def one_event(
    view: Pages,
    event_id: EventId,
    q: Annotated[str, Query(max_length=2000)] = "",
    after: Annotated[int, Query(ge=0, le=BIGGEST)] = 0,
) -> Response:
    """Show the event with the items that contain `q`, without the first `after` of them."""
    async with view.context.database.reading() as connection:
        event = await event_lists.get(connection, event_id)
        consumers = await consumption.runs_of_events(connection, [event.id])
        with_source = await consumption.events_with_source(connection, [event.id])
        causes = await causes_of(connection, consumers)
    items = items_of(event.extra)
    return view.page(
        "event.html",
        event=event,
        consumers=consumers,
        causes=causes,
        with_source=with_source,
        counts=Counter(item.member for item in items),
        items=part_of(items, q, after),
        facts=facts_of(event.extra),
        rest=without_items(event.extra),
        text=q,
        after=after,
    )
