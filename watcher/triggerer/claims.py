"""Claims of single watchers, as after a failure: those that come while a statement is under way go with the next one.

After an outage all the watchers of a process claim at once; a statement for each would keep them, and everybody else, waiting.
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
    """`position` stays None where another triggerer holds it."""

    format: int
    position: LoadedPosition | None = None
    error: Exception | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass(kw_only=True, eq=False)
class Claims:
    """Claims positions for one triggerer, while `run` runs."""

    database: Database
    owner: str
    _requests: dict[str, _Request] = field(default_factory=dict)
    _asked: anyio.Event = field(default_factory=anyio.Event)
    _is_over: bool = False

    async def claim(self, hosted: Hosted) -> LoadedPosition | None:
        """None while another triggerer holds it. Shielded: a claim that is under way is known before its caller ends."""
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
        """Until cancelled; who still waits then has no position."""
        try:
            while True:
                await self._asked.wait()
                self._asked, requests, self._requests = anyio.Event(), self._requests, {}
                try:
                    await self._answer(requests)
                finally:
                    _tell(requests)
        finally:
            self._is_over = True
            _tell(self._requests)

    async def _answer(self, requests: dict[str, _Request]) -> None:
        formats = {name: request.format for name, request in requests.items()}
        try:
            async with self.database.statements() as connection:
                claimed = await positions.claim_all(connection, formats, self.owner, self.database.dialect)
        except Exception as error:  # noqa: BLE001  theirs who asked
            for request in requests.values():
                request.error = error
        else:
            for name, position in claimed.items():
                requests[name].position = position


def _tell(requests: dict[str, _Request]) -> None:
    for request in requests.values():
        request.answered.set()
