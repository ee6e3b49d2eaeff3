"""`/api/v2/watchers` and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Header, HTTPException, Response
from fastapi.responses import PlainTextResponse

from store.catalog import watchers
from store.catalog.watchers import WatcherRow
from store.detection import outbox
from store.detection.outbox import StuckLane
from store.processes import audit
from watcher.host.logs.paths import watcher_logs
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.openapi import MAY_CONFLICT
from watcher.serving.api.parameters import Body, Text, example
from watcher.serving.api.routes.logs import LINES_OF_LOGS, LogQueryParameters, answer
from watcher.serving.api.shapes.base import JsonValue, Shape
from watcher.serving.api.sign_in.auth import Actor, Listener, Operator, Viewer
from watcher.serving.api.writes import new_write_id
from watcher.triggerer.control import Control, MovedPosition, Preview, UndoneRewind

router = APIRouter(prefix="/api/v2/watchers", tags=["Watcher"])
DESCRIBE_PATIENCE: Final = 1.0
"""Seconds in which plug-ins are asked about all watermarks of an answer."""
_MOVING: Final = {**MAY_CONFLICT, 502: {"description": "The watcher's source does not answer"}}


class WatcherFinding(Shape):
    """What a person should look at; `since` the process that hosts the watcher has found it."""

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
    """What its trigger says of it: what is open, and who is waited for; null where there is nothing to say."""
    last_poll_at: datetime | None
    last_event_at: datetime | None
    lag_seconds: float | None
    """Since the last whole look at the source that is committed, or found nothing, began."""
    error: str | None
    error_count: int
    findings: Sequence[WatcherFinding]
    """What breaks, or may break, a condition of exact detection."""
    paused: bool


class WatcherCollection(Shape):
    watchers: Sequence[Watcher]
    total_entries: int


@router.get("")
async def list_watchers(context: Context, _: Viewer) -> WatcherCollection:
    async with context.database.reading() as connection:
        rows = await watchers.listed(connection)
    return WatcherCollection(watchers=await shown(context, rows), total_entries=len(rows))


@router.get("/{name}")
async def get_watcher(context: Context, _: Viewer, name: str) -> Watcher:
    async with context.database.reading() as connection:
        row = await watchers.get(connection, name)
    [watcher] = await shown(context, [row])
    return watcher


async def shown(context: ApiContext, rows: Sequence[WatcherRow]) -> list[Watcher]:
    """The rows, with what this process knows better of watchers that it hosts. Not within a transaction: it may take time."""
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
    async with context.database.reading() as connection:
        row = context.process.health.merged(await watchers.get(connection, name))
        lanes = await outbox.stuck(connection, row.asset_id)
    findings = [WatcherFinding.model_validate(finding) for finding in row.findings_now]
    findings += [_of_forwarding(lane) for lane in lanes if lane.refused]
    return FindingCollection(findings=findings, total_entries=len(findings))


def _of_forwarding(lane: StuckLane) -> WatcherFinding:
    """Airflow refuses the events of the watcher's asset."""
    remedy = "mend it in settings.airflow, or there; the event is tried again every minute"
    return WatcherFinding(check="forward", level="error", message=lane.error, remedy=remedy, since=lane.since)


class WatcherPoll(Shape):
    """`found`: files and rows; `committed`: events. `seconds` is null where nobody knows, as of one that failed.

    Polls in a row that found nothing, or failed alike, are one, the last of them: `times` says how many there were. A look
    that is made for many watchers moves the last one that found nothing, and is not counted.
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
    """Its last fifty polls, the newest first; another process than its host knows those that found something or failed."""
    async with context.database.reading() as connection:
        await watchers.asset_of(connection, name)
        stored = (await watchers.stored_polls(connection, [name])).get(name)
    polls = [WatcherPoll.of(poll) for poll in context.process.health.polls(name, stored)]
    return PollCollection(polls=polls, total_entries=len(polls))


@router.post("/{name}/pause")
async def pause(context: Context, actor: Operator, name: str) -> Watcher:
    return await _set_paused(context, actor, name, paused=True)


@router.post("/{name}/resume")
async def resume(context: Context, actor: Operator, name: str) -> Watcher:
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


class RewindBody(Body):
    model_config = example(to="2026-01-31T12:00:00Z", preview=True)

    to: Text
    preview: bool = False


@router.post("/{name}/poll", responses=_MOVING)
async def poll(context: Context, _: Operator, name: str, dry_run: bool = False) -> Preview:
    """What the next poll would find. Nothing else can be asked for: watchers poll by themselves."""
    if not dry_run:
        raise HTTPException(422, "a watcher polls by itself; add dry_run=true to see what it would find")
    return await _control(context).dry_run(name)


@router.post("/{name}/rewind", responses=_MOVING)
async def rewind(context: Context, actor: Operator, name: str, body: RewindBody) -> Preview | MovedPosition:
    if body.preview:
        return await _control(context).preview(name, body.to)
    return await _control(context).rewind(name, body.to, actor.name)


@router.post("/{name}/rewind/undo", responses=_MOVING)
async def undo_rewind(context: Context, actor: Operator, name: str) -> UndoneRewind:
    """Put the position before the last rewind back, while nothing would be told again; 409 says what would be.

    `events` counts what was told since: it stays told, and its runs run.
    """
    return await _control(context).undo(name, actor.name)


class RenameBody(Body):
    model_config = example(to="landing_files")

    to: Text


@router.post("/{name}/rename", responses=_MOVING)
async def rename(context: Context, actor: Operator, name: str, body: RenameBody) -> MovedPosition:
    """Move the position of a watcher that is configured no more to one that is and has none yet."""
    return await _control(context).rename(name, body.to, actor.name)


def _control(context: ApiContext) -> Control:
    if context.watchers.control is None:
        raise HTTPException(
            503, "this process does not know the watchers' sources; ask one that runs with the configuration"
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
    """Also those of a watcher that is configured no more: what it wrote still leads here."""
    logs = partial(watcher_logs, context.logs_directory, name)
    if not await anyio.to_thread.run_sync(logs) and query.is_of_the_end:
        async with context.database.reading() as connection:
            await watchers.get(connection, name)
    return await answer(context, f"watcher {name}", logs, query, accept, may_listen)
