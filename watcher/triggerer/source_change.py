"""What people are told when a position belongs to another source than the one configured now, or to another selection of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog

from store.database import Database
from store.detection import positions
from store.detection.positions import LoadedPosition
from triggers.base import refuse_errors
from watcher.host.containment import sentence
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import identity_of, stored
from watcher.triggerer.open_triggers import OpenTrigger

UNDECIDED_WITHIN: Final = 15.0
"""Seconds for what people must decide after a reload: the look of each watcher takes at most ten."""

log = structlog.get_logger()


async def what_changed(trigger: OpenTrigger, loaded: LoadedPosition, identity: str) -> str | None:
    """Return a sentence that names what changed in the source of a checked trigger, with the remedy; None: nothing did."""
    before = loaded.source_identity
    if before is None or before == identity:
        return None
    position, watcher = stored(loaded), trigger.context.watcher
    ways = f"decide with `watcher rewind {watcher} --to …`"
    if position is not None and await trigger.reselects(json.loads(before)):
        ways = f"decide: {await trigger.decisions(position)}"
    return f"the source changed: {_differences(json.loads(before), json.loads(identity))}; configure it as it was, or {ways}"


def _differences(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        return ", ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in names)
    return f"it was {before!r} and is {now!r}"


async def undecided(
    watchers: Iterable[Hosted], clients: Clients, database: Database, poll_timeout: timedelta
) -> Mapping[str, str]:
    """Return what people must decide about those of the watchers whose selection changed, by name.

    It reaches no other source, and starts no process for a trigger. What it cannot find out in time, the watchers' states say.
    """
    sentences: dict[str, str] = {}

    async def ask(hosted: Hosted) -> None:
        try:
            if (change := await _of_watcher(hosted, clients, database, poll_timeout)) is not None:
                sentences[hosted.name] = change
        except Exception as error:  # noqa: BLE001  a plug-in may raise anything
            log.info("watcher.not_asked", watcher=hosted.name, error=sentence(error))

    with anyio.move_on_after(UNDECIDED_WITHIN):
        async with anyio.create_task_group() as tasks:
            for hosted in watchers:
                if hosted.trigger.is_here:
                    tasks.start_soon(ask, hosted)
    return dict(sorted(sentences.items()))


async def _of_watcher(hosted: Hosted, clients: Clients, database: Database, poll_timeout: timedelta) -> str | None:
    async with database.reading() as connection:
        loaded = await positions.read_without_rows(connection, hosted.name)
    if loaded is None or loaded.source_identity is None:
        return None
    async with open_trigger(hosted, clients, poll_timeout, has_position=True, dry_run=True) as trigger:
        if not await trigger.reselects(json.loads(loaded.source_identity)):
            return None
        refuse_errors(await trigger.check())
        async with database.reading() as connection:
            whole = await positions.read(connection, hosted.name)
        return None if whole is None else await what_changed(trigger, whole, await identity_of(trigger, whole))
