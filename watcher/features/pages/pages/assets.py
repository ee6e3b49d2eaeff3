"""The pages of all assets, of one asset, and of the history of an entry with differences and undo."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets, watcher_assets
from store.database.paging import PageRequest
from store.detection import event_lists
from store.detection.event_lists import EventFilter, StoredEvent
from store.features.outbox import outbox
from store.keys import AssetRef
from store.runs import consumption
from store.runs.consumption import ConsumingRun
from store.runs.queue import waiting
from store.state import history
from store.state.history import HistoryEntry
from watcher.features.pages.forms import Form, go_to
from watcher.features.pages.parts import FEW, ROWS, Before, ListPart
from watcher.features.pages.rendering import Pages
from watcher.features.pages.words import pretty
from watcher.serving.api.context import Context
from watcher.serving.api.parameters import AssetId, QueryKey
from watcher.serving.api.routes.asset_store import UndoEntry, undo_entry
from watcher.serving.api.shapes.assets import asset_response
from watcher.serving.api.sign_in.auth import Admin
from watcher.serving.api.waiting import waiting_jobs

router = APIRouter(include_in_schema=False)
_MOST_ENTRIES: Final = 200


@router.get("/assets")
async def all_assets(view: Pages, after: Annotated[str | None, Query(max_length=1500)] = None) -> Response:
    async with view.context.database.reading() as connection:
        rows = await assets.following(connection, after, limit=ROWS + 1)
        shown = await _with_surroundings(connection, rows[:ROWS])
    following = shown[-1].name if len(rows) > ROWS else None
    return view.page("assets.html", assets=shown, following=following, after=after)


async def _with_surroundings(connection: AsyncConnection, rows: Sequence[assets.AssetRow]) -> Sequence[Any]:
    ids = [row.id for row in rows]
    around = await assets.jobs_around(connection, ids)
    attached = await assets.attached(connection, ids)
    unprocessed = await consumption.unprocessed_of_assets(connection, ids)
    return [asset_response(row, around, attached, unprocessed) for row in rows]


@router.get("/assets/{asset_id}")
async def one_asset(view: Pages, asset_id: AssetId) -> Response:
    context = view.context
    async with context.database.reading() as connection:
        asset = await assets.get(connection, asset_id)
        (shown,) = await _with_surroundings(connection, [asset])
        entries = await context.entries.page(connection, asset.ref, PageRequest(limit=_MOST_ENTRIES))
        recent = await _events(connection, asset_id, None, FEW)
        stuck = await outbox.stuck(connection, asset_id)
        waits = await waiting_jobs(connection, await waiting.jobs_scheduled_on(connection, asset_id), context.planners)
    return view.page(
        "asset.html",
        asset=shown,
        is_active=asset.active,
        keeps_history=context.entries.keeps_history,
        entries=entries,
        waits=waits,
        stuck=stuck,
        events=recent.part,
        consumers=recent.consumers,
        with_source=recent.with_source,
    )


@router.get("/assets/{asset_id}/events")
async def events_of_asset(view: Pages, asset_id: AssetId, before: Before = None) -> Response:
    async with view.context.database.reading() as connection:
        asset = await assets.get(connection, asset_id)
        recent = await _events(connection, asset_id, before, ROWS)
    return view.page(
        "events.html",
        asset=asset,
        before=before,
        events=recent.part,
        consumers=recent.consumers,
        with_source=recent.with_source,
    )


@dataclass(frozen=True, kw_only=True)
class _ShownEvents:
    """A part of an asset's events with what a page links them to."""

    part: ListPart[StoredEvent]
    consumers: Mapping[int, Sequence[ConsumingRun]]
    """The runs that consumed each event, by the event's id."""
    with_source: Collection[int]
    """The ids of the events whose source still has a page."""


async def _events(connection: AsyncConnection, asset_id: int, before: int | None, limit: int) -> _ShownEvents:
    rows = await event_lists.latest(connection, EventFilter(asset_id=asset_id), limit=limit + 1, before=before)
    part: ListPart[StoredEvent] = ListPart.of(rows, lambda event: event.id, limit)
    with_source = await consumption.events_with_source(connection, [event.id for event in part.rows])
    return _ShownEvents(part=part, consumers=await consumers_of(connection, part.rows), with_source=with_source)


async def consumers_of(
    connection: AsyncConnection, rows: Sequence[StoredEvent]
) -> Mapping[int, Sequence[ConsumingRun]]:
    """Return the runs that consumed each event, by the event's id."""
    consuming = await consumption.runs_of_events(connection, [event.id for event in rows])
    return {event.id: [run for run in consuming if run.event_id == event.id] for event in rows}


@router.get("/assets/{asset_id}/entry")
async def one_entry(
    view: Pages,
    asset_id: AssetId,
    key: QueryKey,
    before: Before = None,
    old: Before = None,
    new: Before = None,
) -> Response:
    """Show an entry's versions, newest first, and the difference between two of them: `old` and `new`, or the newest two."""
    async with view.context.database.reading() as connection:
        asset = await assets.get(connection, asset_id)
        rows = await history.latest(connection, asset.ref, key, limit=ROWS + 1, before=before)
        current = next(iter(rows), None) if before is None else await _newest(connection, asset.ref, key)
        chosen = [
            await history.version(connection, asset.ref, key, number) if number is not None else usual
            for number, usual in ((old, _second(rows)), (new, current))
        ]
        is_protected = key in await watcher_assets.watermark_keys(connection, asset_id)
    part: ListPart[HistoryEntry] = ListPart.of(rows, lambda row: row.version)
    difference = None if chosen[0] is None or chosen[1] is None else _difference(chosen[0], chosen[1])
    return view.page(
        "entry.html",
        asset=asset,
        key=key,
        is_protected=is_protected,
        versions=part,
        old=chosen[0],
        new=chosen[1],
        difference=difference,
        current=current,
    )


async def _newest(connection: AsyncConnection, asset: AssetRef, key: str) -> HistoryEntry | None:
    return next(iter(await history.latest(connection, asset, key, limit=1)), None)


def _second(rows: Sequence[HistoryEntry]) -> HistoryEntry | None:
    return rows[1] if len(rows) > 1 else None


def _difference(old: HistoryEntry, new: HistoryEntry) -> Sequence[tuple[str, str]]:
    """Return the lines of a difference, each with its mark: `+`, `-` or ` `. Return none if the values are equal."""
    before, after = _lines(old), _lines(new)
    lines = list(unified_diff(before, after, n=3, lineterm=""))[2:]
    return [(line[:1], line[1:]) for line in lines]


def _lines(row: HistoryEntry) -> list[str]:
    return [] if row.value is None else pretty(row.value).split("\n")


@router.post("/assets/{asset_id}/undo")
async def undo(request: Request, context: Context, actor: Admin, asset_id: AssetId, form: Form) -> Response:
    """Restore an older version of an entry, if the entry has not changed since the page was shown."""
    key = form.text("key")
    body = UndoEntry(to_version=form.number("to_version"), if_version=form.number("if_version"))
    await undo_entry(context, actor, asset_id, key, body)
    return go_to(request, "assets", asset_id, "entry", key=key)
