"""Builds the room: the triggerer that hosts watchers, and what people do to their positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Table

from store.database import Database
from store.detection.interest import EventHooks
from store.processes import triggerers
from watcher.host.health import WatcherReport
from watcher.host.home import Home
from watcher.host.loops import Hint
from watcher.host.metadata import patiently
from watcher.host.room import Host
from watcher.triggerer.clients import Clients, Hosted
from watcher.triggerer.committing import Committer
from watcher.triggerer.control import Control, CountCleaned
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer


async def take_over(home: Home, database: Database, process_id: str) -> None:
    """Release at once what this home's last daemon hosted, if it was killed: its lease may be long. Raises `StartRefused`."""

    async def leave() -> None:
        async with database.statements() as connection:
            await triggerers.leave(connection, str(last))

    if (last := home.last_process()) is not None:
        await patiently(leave)
    home.remember_process(process_id)


def build_triggerer(
    host: Host,
    *,
    hosted: Mapping[str, Hosted],
    configuration: str,
    clients: Clients,
    hooks: EventHooks,
    on_watermark: Callable[[int, str], None],
) -> Triggerer:
    """Build the triggerer of a process. `configuration` is the hash of the one that `hosted` is from.

    `hooks` take part in the commits of detections. `on_watermark` is called with the asset id and key of each watermark entry
    that was written.
    """
    settings = host.settings.triggerer
    committer = Committer(
        database=host.database,
        metrics=host.metrics,
        on_events=lambda dag_ids: host.hints.give(Hint(what="queues", names=dag_ids)),
        on_watermark=on_watermark,
        hooks=hooks,
        on_wakes=host.hints.wake,
    )

    def supervise(watcher: Hosted) -> Supervisor:
        return Supervisor(
            hosted=watcher,
            owner=host.process.id,
            database=host.database,
            committer=committer,
            clients=clients,
            poll_timeout=settings.poll_timeout,
            report=WatcherReport(starts_now=watcher.facts.starts_now),
        )

    triggerer = Triggerer(
        database=host.database,
        process=host.process,
        hosted=hosted,
        configuration=configuration,
        supervise=supervise,
        heartbeat=settings.heartbeat,
        lease=settings.lease,
        capacity=settings.capacity,
        on_release=lambda names: host.hints.relay.send(Hint(what="watchers", names=names)),
        health=host.health,
    )
    host.hints.listen("watchers", triggerer.wakeup.set)
    host.hints.listen("polls", triggerer.poll_now)
    host.hints.listen("configuration", lambda _hash: triggerer.wakeup.set())
    return triggerer


def build_control(
    host: Host,
    *,
    hosted: Mapping[str, Hosted],
    clients: Clients,
    tables: Sequence[Table],
    on_watermark: Callable[[int, str], None],
    count_cleaned: CountCleaned | None,
) -> Control:
    """Build what moves the positions of the watchers `hosted`, in all `tables`. `on_watermark`: as of `build_triggerer`."""
    return Control(
        database=host.database,
        hosted=hosted,
        clients=clients,
        tables=tables,
        poll_timeout=host.settings.triggerer.poll_timeout,
        hint=host.hints.give,
        on_watermark=on_watermark,
        count_cleaned=count_cleaned,
    )
