"""A minimal host: start-up checks, one commit per batch, and a restart from the last commit after a crash."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from triggers.base import RejectedItem, StoredPosition, TriggerBatch, TriggerContext, TriggerEvent, refuse_errors
from triggers.changes.options import ChangesOptions
from triggers.changes.trigger import PostgresChanges
from triggers.errors import TriggerError
from triggers.postgres.connection import PostgresClient, PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions


def options(**values: object) -> NewRowsOptions:
    return NewRowsOptions.model_validate({"table": "public.orders", "interval": "1ms", **values})


def changes_options(**values: object) -> ChangesOptions:
    return ChangesOptions.model_validate({"table": "public.orders", "interval": "1ms", **values})


def ids_of(events: list[TriggerEvent]) -> list[int]:
    """Return every id in the events' ranges (the keys in mode `updated_at`), in order; there are as many as the events' count says."""
    ids: list[int] = []
    for event in events:
        payload: Any = event.payload
        ranges = payload.get("ranges", ())
        keys = [*payload.get("keys", ()), *payload.get("deleted", ())]
        numbers = keys or [number for low, high in ranges for number in range(low, high + 1)]
        assert len(numbers) == event.count
        ids += numbers
    return ids


@dataclass
class Committed:
    """What survives a crash: JSON text as a database keeps it."""

    state: str | None = None
    rows: dict[int, int] = field(default_factory=dict)
    chunks: dict[int, bytes] = field(default_factory=dict)
    watermark: Any = None
    events: list[Any] = field(default_factory=list)
    writes: int = 0
    silent: int = 0
    """How many of these writes were silent."""
    sizes: list[int] = field(default_factory=list)
    """The bytes of each batch's events as JSON."""
    rejected: dict[tuple[str, str], RejectedItem] = field(default_factory=dict)
    """The rejected items, by key and version."""
    retried: bool = False
    """Whether a person wants all rejected items retried."""

    def apply(self, batch: TriggerBatch) -> None:
        if batch.position is None:
            return
        changes = batch.position.rows
        self.state = json.dumps(batch.position.state)
        below = changes.delete_below
        kept = {} if changes.clear else self.rows
        self.rows = {member: value for member, value in kept.items() if below is None or value >= below}
        self.rows = {member: value for member, value in self.rows.items() if member not in changes.delete}
        self.rows.update(changes.insert)
        chunks_below = changes.delete_chunks_below
        chunks = {} if changes.clear else self.chunks
        self.chunks = {
            number: data for number, data in chunks.items() if chunks_below is None or number >= chunks_below
        }
        self.chunks.update(changes.chunks)
        if not batch.position.silent:
            self.watermark = json.loads(json.dumps(batch.position.watermark))
        self.events += batch.events
        self.sizes.append(sum(len(json.dumps(event.payload)) for event in batch.events))
        for item in batch.settled:
            self.rejected.pop((json.dumps(item.key), item.version), None)
        self.rejected |= {(json.dumps(item.key), item.version): item for item in batch.rejected}
        self.writes += 1
        self.silent += batch.position.silent

    @property
    def ids(self) -> list[int]:
        return ids_of(self.events)

    @property
    def position(self) -> StoredPosition | None:
        if self.state is None:
            return None
        rejected = [*self.rejected.values()]
        retried, self.retried = rejected if self.retried else [], False
        return StoredPosition(
            state=json.loads(self.state),
            rows=dict(self.rows),
            rejected=rejected,
            retried=retried,
            chunks=dict(self.chunks),
        )


class TinyHost:
    def __init__(self, client: PostgresClient, watched: NewRowsOptions | ChangesOptions, **context: Any) -> None:
        self.client = client
        self.options = watched
        self.context = TriggerContext(watcher="orders_rows", **context)
        self.committed = Committed()
        self.trigger: Any = None
        self._batches: AsyncGenerator[TriggerBatch, None] | None = None
        self.kept: StoredPosition | None = None
        """The position before the last `rewind`."""
        self.retold: list[bool] = []
        """For each batch since then, whether that position had reported all of it."""

    async def rewind(self, to: str) -> None:
        await self.stop()
        trigger = self.new_trigger()
        refuse_errors(await trigger.check())
        self.kept, self.retold = self.committed.position, []
        self.committed.apply(TriggerBatch(position=trigger.rewound(self.kept, to)))
        await self.start()

    def new_trigger(self) -> NewRows | PostgresChanges:
        if isinstance(self.options, ChangesOptions):
            return PostgresChanges(self.options, self.client, self.context)
        return NewRows(self.options, self.client, self.context)

    async def start(self) -> Any:
        await self.stop()
        trigger = self.new_trigger()
        self.trigger = trigger
        refuse_errors(await trigger.check())
        self._batches = trigger.events(self.committed.position)
        return trigger

    async def stop(self) -> None:
        if self._batches is not None:
            await self._batches.aclose()
            self._batches = None

    async def crash(self) -> None:
        """Crash before the next batch is committed, and start again."""
        assert self._batches is not None
        await anext(self._batches)
        await self.start()

    async def commit_one(self) -> None:
        """Commit the next batch, and crash before the one after it is committed."""
        assert self._batches is not None
        self.committed.apply(await anext(self._batches))
        await self.crash()

    async def poll(self) -> bool:
        """Poll once and commit; return whether the trigger has caught up."""
        if self._batches is None:
            await self.start()
        assert self._batches is not None
        try:
            async for batch in self._batches:
                if batch.position is None:
                    return batch.caught_up
                if self.kept is not None and self.trigger is not None and (batch.events or batch.rejected):
                    self.retold.append(self.trigger.retold(self.kept, batch))
                self.committed.apply(batch)
        except TriggerError:
            self._batches = None
            raise
        raise AssertionError("events never end")

    async def catch_up(self) -> list[int]:
        """Poll until nothing is waiting, and return the reported ids."""
        return ids_of(await self.drain())

    async def drain(self) -> list[TriggerEvent]:
        """Poll until nothing is waiting, and return the events."""
        before = len(self.committed.events)
        while not await self.poll():
            pass
        return self.committed.events[before:]


@asynccontextmanager
async def hosted(dsn: str, *, max_batch_bytes: int = 16_000_000, **values: object) -> AsyncIterator[TinyHost]:
    """A started host; it has committed its first position and caught up."""
    async with PostgresConnection.model_validate({"dsn": dsn}).open() as client:
        host = TinyHost(client, options(**values), max_batch_bytes=max_batch_bytes)
        try:
            await host.catch_up()
            yield host
        finally:
            await host.stop()
