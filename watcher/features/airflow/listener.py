"""Turns events of Airflow into ours, each once: the leader writes position and events in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.database.asset_events import NewEvent
from store.detection import events
from store.detection.interest import EventHooks, EventOrigin
from store.errors import InvalidValue, NotLeading
from store.features.airflow import listening
from store.features.airflow.listening import StoredReading
from store.values import check_partition_key, to_json
from watcher.features.airflow.client import AirflowClient, AirflowError, TheirEvent
from watcher.features.airflow.forward import is_ours
from watcher.features.airflow.reading import AirflowReading
from watcher.host.health import Health
from watcher.host.leader_election import Leadership
from watcher.host.loops import Hint, keep_going

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class AirflowListener:
    """While this process leads, reads the events of Airflow's asset `source` and emits them for our asset `asset`."""

    source: str
    asset: str
    client: AirflowClient
    instance: str
    lateness: timedelta
    poll_interval: timedelta
    database: Database
    leadership: Leadership
    hint: Callable[[Hint], None]
    hooks: EventHooks
    health: Health = field(default_factory=Health)
    _reading: AirflowReading | None = None
    _term: int | None = None
    """The leader's term in which `_reading` was loaded. Another leader may have advanced since."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Poll until cancelled. Airflow may be away for any length of time."""
        await self._await_first_look()
        task_status.started()
        subject = f"airflow/listen/{self.source}"
        while True:
            async with keep_going("airflow.listening_failed"):
                try:
                    await self.look()
                    self.health.concerns.pop(subject, None)
                except AirflowError as error:
                    sentence = f"the events of Airflow's asset {self.source} cannot be read: {error}"
                    if self.health.concerns.get(subject) != sentence:
                        log.warning("airflow.not_read", source=self.source, error=str(error))
                    self.health.concerns[subject] = sentence
            self.health.awaited.discard(self.source)
            await anyio.sleep(self.poll_interval.total_seconds())

    async def _await_first_look(self) -> None:
        async with keep_going("airflow.listening_failed"), self.database.reading() as connection:
            if self.leadership.leads and await listening.load(connection, self.source) is None:
                self.health.awaited.add(self.source)

    async def look(self) -> None:
        """Emit what is new. The first poll emits nothing. Raises `AirflowError`."""
        if self.leadership.term != self._term:
            self._term, self._reading = self.leadership.term, None
        if self._term is None:
            return
        try:
            reading = self._reading or await self._loaded()
            self._reading = None  # read again if anything goes wrong
            self._reading = await (self._begun() if reading is None else self._read(reading))
        except NotLeading:
            return
        except AirflowError:
            self.client.forget(self.source)
            raise

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction of the leader, in the term in which the reading was loaded. Raises `NotLeading`."""
        async with self.leadership.transaction() as connection:
            if self.leadership.term != self._term:
                raise NotLeading("another process may have read these events since; they are read again")
            yield connection

    async def _loaded(self) -> AirflowReading | None:
        async with self.database.reading() as connection:
            stored = await listening.load(connection, self.source)
        return None if stored is None else AirflowReading(newest=stored.newest, seen=stored.seen)

    async def _begun(self) -> AirflowReading:
        """Begin after the events that exist now: they are not new."""
        asset_id = await self.client.asset_id(self.source)
        newest = await self.client.newest_event(asset_id)
        reading = AirflowReading(newest=None if newest is None else newest.timestamp)
        if newest is not None:
            async for page in self.client.events(asset_id, reading.since(self.lateness)):
                reading = reading.with_seen(event for event in page if event.timestamp <= newest.timestamp)
        async with self._transaction() as connection:
            await listening.begin(connection, self.source, StoredReading(newest=reading.newest, seen=reading.seen))
        log.info("airflow.listening", source=self.source, newest=str(reading.newest))
        return reading

    async def _read(self, before: AirflowReading) -> AirflowReading:
        reading, pages = before, 0
        asset_id = await self.client.asset_id(self.source)
        async for page in self.client.events(asset_id, before.since(self.lateness)):
            pages += 1
            if new := reading.unseen(page):
                await self._emit(new)
                reading = reading.with_seen(new)
        after = reading.after_poll(before, pages, self.lateness)
        if after.newest is not None and after.newest != reading.newest:
            async with self._transaction() as connection:
                await listening.advance(connection, self.source, after.newest, self.lateness)
        return after

    async def _emit(self, new: Sequence[TheirEvent]) -> None:
        """Emit these events of Airflow, except those that we created there."""
        foreign = [event for event in new if not is_ours(event.extra, self.instance)]
        async with self._transaction() as connection:
            await listening.remember(connection, self.source, {event.id: event.timestamp for event in new})
            asset_id = await listening.target(connection, self.asset)
            ours = [_ours(asset_id, event) for event in foreign]
            appended = await events.append(connection, ours, origin=EventOrigin.LISTENING, hooks=self.hooks)
        if foreign:
            log.info("airflow.events", source=self.source, asset=self.asset, events=len(foreign))
        if appended.dag_ids:
            self.hint(Hint(what="queues", names=appended.dag_ids))
        for wake in appended.wakes:
            self.hint(Hint(what=wake))


def _ours(asset_id: int, event: TheirEvent) -> NewEvent:
    return NewEvent(
        asset_id=asset_id, extra=_extra(event), trace_id=uuid.uuid4().hex, partition_key=_partition_key(event)
    )


def _partition_key(event: TheirEvent) -> str | None:
    """Return the event's partition key, if it can be stored."""
    try:
        return None if event.partition_key is None else check_partition_key(event.partition_key)
    except InvalidValue as error:
        log.warning("airflow.partition_key_left_out", event_id=event.id, error=str(error))
        return None


def _extra(event: TheirEvent) -> str:
    """Return the event's `extra`, if it can be stored, with its origin under `airflow`."""
    source: Mapping[str, Any] = {
        "event_id": event.id,
        "dag_id": event.dag_id,
        "run_id": event.run_id,
        "task_id": event.task_id,
        "map_index": event.map_index,
    }
    try:
        return to_json({**event.extra, "airflow": source})
    except InvalidValue as error:
        log.warning("airflow.extra_left_out", event_id=event.id, error=str(error))
        return to_json({"airflow": source})
