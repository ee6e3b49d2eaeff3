"""The states of one process's watchers, written for people by a task of its own, so that no poll waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio
import structlog

from store.catalog import watchers
from store.catalog.watchers import WatcherState
from store.database import Database

RETRY_AFTER: Final = 1.0
"""Seconds before states that could not be written are retried."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class States:
    """Writes the newest state of each watcher. Changes during one statement go with the next."""

    database: Database
    owner: str
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _recording: anyio.Lock = field(default_factory=anyio.Lock)
    _pending: dict[str, WatcherState] = field(default_factory=dict)

    def show(self, watcher: str, state: WatcherState) -> None:
        """Record a state soon, if the watcher's position is still ours then."""
        self._pending[watcher] = state
        self._changed.set()

    async def forget(self, watcher: str) -> None:
        """Discard what is not recorded yet about a watcher: something else is about to be written."""
        async with self._recording:
            self._pending.pop(watcher, None)

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            if not await self.flush():
                self._changed.set()
                await anyio.sleep(RETRY_AFTER)

    async def flush(self) -> bool:
        """Record everything shown. Return whether that worked; otherwise it is kept for the next attempt."""
        async with self._recording:
            states, self._pending = self._pending, {}
            try:
                async with self.database.statements() as connection:
                    await watchers.set_states(connection, self.owner, states)
            except Exception as refused:  # noqa: BLE001  states are for people; the watchers go on
                kind = type(refused).__name__
                log.warning("watcher.states_not_recorded", states=len(states), error=str(refused), kind=kind)
                self._pending = {**states, **self._pending}
                return False
            return True
