"""The page of a watcher: its watermark in words, its polls and its log. Operators pause and rewind it there."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, HTTPException, Path, Query, Request, Response

from store.catalog import watcher_assets, watchers
from store.catalog.watchers import WatcherRow
from store.detection import rejections, rewind
from store.features.pages import activity
from watcher.features.pages.forms import Form, go_to
from watcher.features.pages.pages.logs import last_lines, lines
from watcher.features.pages.parts import FEW
from watcher.features.pages.pictures.lag_line import lag_line
from watcher.features.pages.pictures.poll_strip import poll_strip
from watcher.features.pages.pictures.timeline import TimeSpan, hour_marks, ticks
from watcher.features.pages.rendering import Pages, View
from watcher.features.pages.words import in_utc
from watcher.features.reconcile import routes as api_of_reconcile
from watcher.host.logs.paths import watcher_logs
from watcher.host.page_paths import path
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.parameters import storable
from watcher.serving.api.routes import rejected as api_of_rejected
from watcher.serving.api.routes import watchers as api
from watcher.serving.api.routes.logs import excerpt
from watcher.serving.api.routes.watchers import WatcherPoll
from watcher.serving.api.shapes.base import parsed
from watcher.serving.api.sign_in.auth import Operator
from watcher.triggerer.control import MovedPosition, Preview

router = APIRouter(prefix="/watchers/{name}", include_in_schema=False)
_FEW_LINES = 20
_MOST_COUNTED = 1_000
_PLOT_HEIGHT = 60
Name = Annotated[str, Path()]


@router.get("")
async def one_watcher(view: Pages, name: Name) -> Response:
    return await _page(view, name)


async def _page(
    view: View, name: str, preview: Preview | MovedPosition | None = None, to: str | None = None
) -> Response:
    """Return the watcher's page; with a `preview` of the next poll, or of a rewind to `to`."""
    async with view.context.database.reading() as connection:
        row = view.context.process.health.merged(await watchers.get(connection, name))
        asset, *further = await watcher_assets.refs_of(connection, name)
        last_rewind = await rewind.last_rewind(connection, name, most=_MOST_COUNTED)
        stored_polls = (await watchers.stored_polls(connection, [name])).get(name)
        of_assets = await activity.by_hour(connection, [each.id for each in (asset, *further)])
        counts = [sum(of_hour) for of_hour in zip(*of_assets.values(), strict=True)]
        rejected = await rejections.oldest(connection, name, limit=FEW + 1)
    report = view.context.process.health.watchers.get(name)
    retry_at = None if report is None else report.retry_at
    log = partial(watcher_logs, view.context.logs_directory, name)
    records = await excerpt(view.context, log, last_lines(count=_FEW_LINES))
    history = view.context.process.health.history(name, stored_polls)
    polls = history.newest_first()
    span = TimeSpan(zoom="day", until=datetime.now(UTC))
    return view.page(
        "watcher.html",
        watcher=row,
        next_try=None if retry_at is None else max(retry_at - monotonic(), 0),
        asset=asset,
        further=further,
        watermark=parsed(row.watermark_now),
        sentence=await _described(view.context, row),
        places=() if view.context.watchers.control is None else view.context.watchers.control.rewind_places(name),
        rewind=last_rewind,
        most_counted=_MOST_COUNTED,
        rejected=rejected,
        polls=[WatcherPoll.of(poll) for poll in polls[:FEW]],
        poll_strip=poll_strip(polls),
        lag=lag_line(span, history.lag.by_hour, row.lag_seconds, _PLOT_HEIGHT),
        events_by_hour=ticks(span, counts, _PLOT_HEIGHT),
        plot_height=_PLOT_HEIGHT,
        most_in_hour=max(counts, default=0),
        hour_marks=[mark for mark in hour_marks(span) if mark.has_line],
        span=span,
        lines=lines(records),
        around=None,
        api=path("api", "v2", "watchers", name, "logs"),
        preview=preview,
        to=to,
    )


async def _described(context: ApiContext, row: WatcherRow) -> str:
    """Return the watermark as a sentence of its trigger's class."""
    watermark = parsed(row.watermark_now)
    describe = partial(context.watchers.descriptions.describe, watcher=row.name)
    return (await anyio.to_thread.run_sync(describe, row.trigger, watermark)).sentence


@router.post("/pause")
async def pause(request: Request, context: Context, actor: Operator, name: Name) -> Response:
    await api.pause(context, actor, name)
    return go_to(request, "watchers", name)


@router.post("/resume")
async def resume(request: Request, context: Context, actor: Operator, name: Name) -> Response:
    await api.resume(context, actor, name)
    return go_to(request, "watchers", name)


@router.post("/poll")
async def poll_now(request: Request, context: Context, actor: Operator, name: Name) -> Response:
    await api.poll_now(context, actor, name)
    return go_to(request, "watchers", name)


@router.get("/preview")
async def preview(
    view: Pages, actor: Operator, name: Name, to: Annotated[str | None, Query(max_length=1000)] = None
) -> Response:
    """Show what the next poll would find, or with `to` what would follow a rewind. Nothing changes."""
    if to is None:
        return await _page(view, name, preview=await api.preview_poll(view.context, name))
    body = api.RewindBody(to=_place(to), preview=True)
    return await _page(view, name, preview=await api.rewind(view.context, actor, name, body), to=body.to)


@router.post("/rewind")
async def rewind_to(request: Request, context: Context, actor: Operator, name: Name, form: Form) -> Response:
    """Rewind the watcher, after a preview."""
    await api.rewind(context, actor, name, api.RewindBody(to=_place(form.text("to"))))
    return go_to(request, "watchers", name)


def _place(text: str) -> str:
    try:
        return in_utc(storable(text.strip()))
    except ValueError as error:
        raise HTTPException(422, f"`to` {error}") from None


@router.post("/rewind/undo")
async def undo_rewind(request: Request, context: Context, actor: Operator, name: Name) -> Response:
    await api.undo_rewind(context, actor, name)
    return go_to(request, "watchers", name)


@router.post("/reconcile")
async def begin_reconcile(request: Request, view: Pages, name: Name) -> Response:
    """Begin to compare the source with the events, and show how far that has come."""
    begun = await api_of_reconcile.begin(view.context, name, api_of_reconcile.ReconcileBody())
    return go_to(request, "watchers", name, "reconcile", begun.id)


@router.get("/reconcile/{operation_id}")
async def reconciled(view: Pages, name: Name, operation_id: str) -> Response:
    operation = await api_of_reconcile.operation(view.context, name, operation_id)
    return view.page("reconcile.html", operation=operation)


@router.post("/rejected/retry")
async def retry_rejected(request: Request, context: Context, actor: Operator, name: Name) -> Response:
    await api_of_rejected.retry_rejected(context, actor, name)
    return go_to(request, "watchers", name)
