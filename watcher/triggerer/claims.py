"""Claims of single watchers, for example after a failure. Claims that come while a statement runs go with the next one.

After an outage all watchers of a process claim at once. A statement for each would keep them, and everyone else, waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from store.database import Database
from store.detection import positions
from store.detection.positions import LoadedPosition
from watcher.triggerer.clients import Hosted


@dataclass(kw_only=True, eq=False)
class _Request:
    """A claim that waits for its answer. `position` stays None if another triggerer holds it."""

    format: int
    position: LoadedPosition | None = None
    error: Exception | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(kw_only=True, eq=False)
class Claims:
    """Claims positions for one triggerer while `run` runs."""

    database: Database
    owner: str
    _requests: dict[str, _Request] = field(default_factory=dict)
    _asked: anyio.Event = field(default_factory=anyio.Event)
    _is_over: bool = False

    async def claim(self, hosted: Hosted) -> LoadedPosition | None:
        """Claim a watcher's position. None: another triggerer holds it.

        Shielded from cancellation, so that the result of a claim under way is known before the caller ends.
        """
        if self._is_over:
            return None
        request = self._requests.setdefault(hosted.name, _Request(format=hosted.trigger.format))
        self._asked.set()
        with anyio.CancelScope(shield=True):
            await request.answered.wait()
        if request.error is not None:
            raise request.error
        return request.position

    async def run(self) -> None:
        """Claim until cancelled. A caller that still waits then gets no position."""
        try:
            while True:
                await self._asked.wait()
                self._asked, requests, self._requests = anyio.Event(), self._requests, {}
                try:
                    await self._answer(requests)
                finally:
                    _answer_all(requests)
        finally:
            self._is_over = True
            _answer_all(self._requests)

    async def _answer(self, requests: dict[str, _Request]) -> None:
        formats = {name: request.format for name, request in requests.items()}
        try:
            async with self.database.statements() as connection:
                claimed = await positions.claim_all(connection, formats, self.owner, self.database.dialect)
        except Exception as error:  # noqa: BLE001  each caller raises it
            for request in requests.values():
                request.error = error
        else:
            for name, position in claimed.items():
                requests[name].position = position


def _answer_all(requests: dict[str, _Request]) -> None:
    for request in requests.values():
        request.answered.set()
