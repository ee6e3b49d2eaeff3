"""How the watchers of one process are doing, written down for people by a task of its own: no poll waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio
import structlog

from store.catalog import watchers
from store.catalog.watchers import WatcherState
from store.database import Database

AGAIN: Final = 1.0
"""Seconds before states that could not be written are tried again."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class States:
    """What changed while one statement was under way goes with the next; of each watcher the newest state."""

    database: Database
    owner: str
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _recording: anyio.Lock = field(default_factory=anyio.Lock)
    _pending: dict[str, WatcherState] = field(default_factory=dict)

    def show(self, watcher: str, state: WatcherState) -> None:
        """To be recorded soon, if the watcher's position is still ours then."""
        self._pending[watcher] = state
        self._changed.set()

    async def forget(self, watcher: str) -> None:
        """What was shown of it is recorded by now, or never: something else is about to be."""
        async with self._recording:
            self._pending.pop(watcher, None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            if not await self.flush():
                self._changed.set()
                await anyio.sleep(AGAIN)

    async def flush(self) -> bool:
        """Whether all that was shown is recorded; what is not stays to be."""
        async with self._recording:
            states, self._pending = self._pending, {}
            try:
                async with self.database.statements() as connection:
                    await watchers.set_states(connection, self.owner, states)
            except Exception as refused:  # noqa: BLE001  states are for people; the watchers go on
                log.warning("watcher.states_not_recorded", states=len(states), error=str(refused))
                self._pending = {**states, **self._pending}
                return False
            return True
