"""The bounds of what a watcher owes an event for: what its start or a rewind passed over, and what may be forgotten."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
from store.database.paging import now_of
from store.detection import starts
from store.detection.sketches import microseconds
from store.detection.starts import WatcherPast
from store.features.explain import explanations
from triggers.base import refuse_errors
from triggers.inventories import Inventory, Lists, NumberedInventory
from watcher.host.containment import sentence
from watcher.triggerer.clients import Clients, Hosted, open_trigger

_ABOVE_ALL_IDS: Final = 2**63
log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What decides about items that no event names. The places are those of `store.fates.without_event`."""

    past: WatcherPast
    asset_ids: Sequence[int]
    """The assets of which the watcher has events."""
    begun: datetime
    """When the first of these assets was configured."""
    passed_before: int | None
    kept_since: int | None
    doubts: Sequence[str]
    """Why an item may be judged wrongly, in sentences."""


async def inventory_of(hosted: Hosted, clients: Clients) -> Inventory[Any] | None:
    """Return how a watcher's trigger shows its source. None: it cannot, or its source does not answer."""
    try:
        made = open_trigger(hosted, clients, timedelta(minutes=5), has_position=True, dry_run=True)
        async with made as trigger:
            refuse_errors(await trigger.check())
            lists = trigger.ability(Lists)
            return None if lists is None else lists.inventory()
    except Exception as error:  # noqa: BLE001  a plug-in may raise anything, and the question has an answer without it
        log.info("watcher.not_listed", watcher=hosted.name, error=sentence(error))
        return None


async def beginning_of(
    connection: AsyncConnection, hosted: Hosted, inventory: Inventory[Any], kept: timedelta
) -> Beginning:
    """Return the bounds, read in one snapshot. Events are kept for so long."""
    past = await starts.past_of(connection, hosted.name)
    asset_ids = await watcher_assets.assets_of(connection, past.names)
    begun = min([await explanations.begun_at(connection, each) for each in asset_ids])
    move = past.last_move
    start = inventory.start if move is None else inventory.place_of(move.to or "")
    passed_before, doubts = None if isinstance(start, str) else start, list[str]()
    if start == "now":
        passed_before, doubts = await _passed_before(connection, hosted, asset_ids, past, inventory)
    events_since = await now_of(connection) - kept
    kept_since = microseconds(events_since.isoformat()) if begun < events_since else None
    if kept_since is not None and isinstance(inventory, NumberedInventory):
        kept_since = await _lowest_named(connection, asset_ids, past.names)
    return Beginning(
        past=past,
        asset_ids=asset_ids,
        begun=begun,
        passed_before=passed_before,
        kept_since=kept_since,
        doubts=doubts,
    )


async def _lowest_named(connection: AsyncConnection, asset_ids: Sequence[int], names: Collection[str]) -> int:
    """Return the lowest number that the oldest event names: events of lower ones may have been removed."""
    extra = await starts.oldest_extra(connection, asset_ids, names)
    return min((low for low, _ in from_json(extra or "{}").get("ranges", ())), default=_ABOVE_ALL_IDS)


async def _passed_before(
    connection: AsyncConnection,
    hosted: Hosted,
    asset_ids: Sequence[int],
    past: WatcherPast,
    inventory: Inventory[Any],
) -> tuple[int | None, list[str]]:
    """Return the moment before which a start at `now` passes over what is there, and what is doubtful about it.

    The watcher's watermark stands under its own asset.
    """
    since = None if past.last_move is None else past.last_move.at
    for watermark in await starts.watermarks_after(connection, hosted.asset_id, past.names, since):
        if (began := inventory.begins_at(watermark)) is not None:
            return began, []
    first = await starts.first_event_at(connection, asset_ids, past.names, since) or await now_of(connection)
    if isinstance(inventory, NumberedInventory):
        return None, [
            "the history of the watermark does not go back to the watcher's start, so rows that were there before count as lost"
        ]
    doubt = (
        "the history of the watermark does not go back to the watcher's start, so what was written before"
        f" {first.replace(microsecond=0, tzinfo=None).isoformat()}Z and no event names counts as before the start"
    )
    return microseconds(first.isoformat()), [doubt]
