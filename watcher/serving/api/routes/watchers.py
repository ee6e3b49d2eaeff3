"""`/api/v2/watchers`: watchers, what people do to their positions, and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final

import anyio.to_thread
from fastapi import APIRouter, Header, HTTPException, Response
from fastapi.responses import PlainTextResponse

from store.catalog import watcher_assets, watchers
from store.catalog.watchers import WatcherRow
from store.errors import Conflict
from store.features.outbox import outbox
from store.features.outbox.outbox import StuckLane
from store.processes import audit
from watcher.host.logs.paths import watcher_logs
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import Body, Text, example
from watcher.serving.api.routes.logs import LINES_OF_LOGS, LogQueryParameters, answer
from watcher.serving.api.shapes.base import JsonValue, Shape
from watcher.serving.api.sign_in.auth import Actor, Listener, Operator, Viewer
from watcher.serving.api.writes import new_write_id
from watcher.triggerer.control import Control, MovedPosition, Preview, UndoneRewind

router = APIRouter(prefix="/api/v2/watchers", tags=["Watcher"])
DESCRIBE_PATIENCE: Final = 1.0
"""Seconds in which plug-ins have to describe all watermarks of an answer."""
_MOVING: Final = {**MAY_CONFLICT, 502: {"description": "The watcher's source does not answer."}}


class WatcherFinding(Shape):
    """A finding that a person should see. `since` is when the process that hosts the watcher found it."""

    check: str
    level: str
    message: str
    remedy: str
    since: datetime


class Watcher(Shape):
    name: str
    asset: str
    trigger: str
    state: str
    owner: str | None
    position_version: int | None
    watermark: JsonValue
    watermark_in_words: str | None
    """The trigger's description of the watermark: what is open, and what it waits for. Null if it has none."""
    last_poll_at: datetime | None
    last_event_at: datetime | None
    lag_seconds: float | None
    """The seconds since the start of the last complete poll that was committed or found nothing."""
    error: str | None
    error_count: int
    findings: Sequence[WatcherFinding]
    """The findings that break, or may break, a condition of exact detection; those of level `info` do neither."""
    paused: bool


class WatcherCollection(Shape):
    watchers: Sequence[Watcher]
    total_entries: int


@router.get("")
async def list_watchers(context: Context, _: Viewer) -> WatcherCollection:
    """List all configured watchers."""
    async with context.database.reading() as connection:
        rows = await watchers.listed(connection)
    return WatcherCollection(watchers=await shown(context, rows), total_entries=len(rows))


@router.get("/{name}")
async def get_watcher(context: Context, _: Viewer, name: str) -> Watcher:
    """Return a watcher."""
    async with context.database.reading() as connection:
        row = await watchers.get(connection, name)
    [watcher] = await shown(context, [row])
    return watcher


async def shown(context: ApiContext, rows: Sequence[WatcherRow]) -> list[Watcher]:
    """Return the watchers, with newer facts about those that this process hosts. Do not call it in a transaction: it may be slow."""
    merged = [context.process.health.merged(row) for row in rows]
    sentences = await anyio.to_thread.run_sync(context.watchers.descriptions.sentences, merged, DESCRIBE_PATIENCE)
    return [
        Watcher.of(
            row,
            lag_seconds=row.lag_seconds,
            watermark=row.watermark_now,
            watermark_in_words=sentence,
            findings=row.findings_now,
        )
        for row, sentence in zip(merged, sentences, strict=True)
    ]


class FindingCollection(Shape):
    findings: Sequence[WatcherFinding]
    total_entries: int


@router.get("/{name}/findings")
async def get_findings(context: Context, _: Viewer, name: str) -> FindingCollection:
    """List the findings about a watcher and the forwarding of its assets' events."""
    async with context.database.reading() as connection:
        row = context.process.health.merged(await watchers.get(connection, name))
        refs = await watcher_assets.refs_of(connection, name)
        lanes = [*chain.from_iterable([await outbox.stuck(connection, asset.id) for asset in refs])]
    findings = [WatcherFinding.model_validate(finding) for finding in row.findings_now]
    findings += [_of_forwarding(lane) for lane in lanes if lane.refused]
    return FindingCollection(findings=findings, total_entries=len(findings))


def _of_forwarding(lane: StuckLane) -> WatcherFinding:
    """Return the finding that Airflow refuses the events of one of the watcher's assets."""
    remedy = "correct settings.airflow, or the cause in Airflow; the event is retried every minute"
    return WatcherFinding(check="forward", level="error", message=lane.error, remedy=remedy, since=lane.since)


class WatcherPoll(Shape):
    """A poll. `found`: files and rows. `committed`: events. `seconds` is null if unknown, as for a failed poll.

    Successive polls that found nothing, or failed in the same way, are shown as the last one of them, and `times` is their
    number. A poll that is made for many watchers updates the last one that found nothing, and is not counted.
    """

    started: datetime
    seconds: float | None
    found: int
    committed: int
    error: str | None
    times: int


class PollCollection(Shape):
    polls: Sequence[WatcherPoll]
    total_entries: int


@router.get("/{name}/polls")
async def get_polls(context: Context, _: Viewer, name: str) -> PollCollection:
    """List the last fifty polls, newest first. A process that does not host the watcher shows only polls that found something or failed."""
    async with context.database.reading() as connection:
        await watchers.asset_of(connection, name)
        stored = (await watchers.stored_polls(connection, [name])).get(name)
    polls = [WatcherPoll.of(poll) for poll in context.process.health.history(name, stored).newest_first()]
    return PollCollection(polls=polls, total_entries=len(polls))


@router.post("/{name}/pause")
async def pause(context: Context, actor: Operator, name: str) -> Watcher:
    """Pause a watcher."""
    return await _set_paused(context, actor, name, paused=True)


@router.post("/{name}/resume")
async def resume(context: Context, actor: Operator, name: str) -> Watcher:
    """Resume a paused watcher."""
    return await _set_paused(context, actor, name, paused=False)


async def _set_paused(context: ApiContext, actor: Actor, name: str, *, paused: bool) -> Watcher:
    async with context.database.transaction() as connection:
        await watchers.set_paused(connection, name, paused=paused)
        action = "watcher.pause" if paused else "watcher.resume"
        await audit.record(connection, actor.name, action, name, write_id=new_write_id())
        row = await watchers.get(connection, name)
    context.hint(Hint(what="watchers", names=frozenset({name})))
    [watcher] = await shown(context, [row])
    return watcher


_POLLING: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Watcher, "description": "The process that hosts the watcher is asked to poll now."}
}


class RewindBody(Body):
    model_config = example(to="2026-01-31T12:00:00Z", preview=True)

    to: Text
    preview: bool = False


@router.post("/{name}/poll", responses={**_MOVING, **_POLLING}, response_model=Preview)
async def poll(context: Context, actor: Operator, name: str, dry_run: bool = False) -> Preview | Response:
    """Have the process that hosts the watcher poll now, also if it waits after a failure; with `dry_run` preview that poll.

    409 means that the watcher is paused, or that no process hosts it.
    """
    if dry_run:
        return await preview_poll(context, name)
    watcher = await poll_now(context, actor, name)
    return Response(watcher.model_dump_json(), 202, media_type="application/json")


async def preview_poll(context: ApiContext, name: str) -> Preview:
    """Return what the next poll would emit."""
    return await control_of(context).dry_run(name)


async def poll_now(context: ApiContext, actor: Actor, name: str) -> Watcher:
    """Ask the hosting process for a poll. A request that is lost on the way costs time: the watcher polls on its own."""
    async with context.database.transaction() as connection:
        row = await watchers.get(connection, name)
        if row.paused:
            raise Conflict(f"{name} is paused; resume it, then it polls")
        if row.owner is None:
            raise Conflict(f"no process hosts {name} now; start one with the role triggerer")
        await audit.record(connection, actor.name, "watcher.poll", name, write_id=new_write_id())
    context.hint(Hint(what="polls", names=frozenset({name})))
    [watcher] = await shown(context, [row])
    return watcher


@router.post("/{name}/rewind", responses=_MOVING)
async def rewind(context: Context, actor: Operator, name: str, body: RewindBody) -> Preview | MovedPosition:
    """Move the position of a watcher to `to`, or with `preview` only return what would follow."""
    if body.preview:
        return await control_of(context).preview(name, body.to)
    return await control_of(context).rewind(name, body.to, actor.name)


@router.post("/{name}/rewind/undo", responses=_MOVING)
async def undo_rewind(context: Context, actor: Operator, name: str) -> UndoneRewind:
    """Restore the position before the last rewind, if no event would be emitted twice. Otherwise 409 names the events.

    `events` counts the events since the rewind. They remain, and so do their runs.
    """
    return await control_of(context).undo(name, actor.name)


class ResolvedFindings(Shape):
    """How many findings were dropped that stood until a person had read them."""

    resolved: int


@router.post("/{name}/findings/resolve", responses=_MOVING)
async def resolve_findings(context: Context, actor: Operator, name: str) -> ResolvedFindings:
    """Drop the findings of a watcher that stand until a person has read them, as after a change of its server's history."""
    return ResolvedFindings(resolved=await control_of(context).resolve(name, actor.name))


class RenameBody(Body):
    model_config = example(to="landing_files")

    to: Text


@router.post("/{name}/rename", responses=_MOVING)
async def rename(context: Context, actor: Operator, name: str, body: RenameBody) -> MovedPosition:
    """Move the position of a watcher that is no longer configured to a configured watcher that has none yet."""
    return await control_of(context).rename(name, body.to, actor.name)


def control_of(context: ApiContext) -> Control:
    """Return what reaches the watchers' sources. Raises `HTTPException` in a process that does not know them."""
    if context.watchers.control is None:
        raise HTTPException(
            503, "this process does not know the watchers' sources; send the request to one that runs the configuration"
        )
    return context.watchers.control


@router.get("/{name}/logs", response_class=PlainTextResponse, responses=LINES_OF_LOGS)
async def get_logs(
    context: Context,
    _: Viewer,
    name: str,
    query: LogQueryParameters,
    may_listen: Listener,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """Return the log of a watcher, also of one that is no longer configured, whose writes still link to it."""
    logs = partial(watcher_logs, context.logs_directory, name)
    if not await anyio.to_thread.run_sync(logs) and query.is_of_the_end:
        async with context.database.reading() as connection:
            await watchers.get(connection, name)
    return await answer(context, f"watcher {name}", logs, query, accept, may_listen)
