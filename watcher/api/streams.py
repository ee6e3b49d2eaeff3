"""Answers that go on for as long as somebody listens: few of them, and never silent for long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
from fastapi import HTTPException

MOST_STREAMS: Final = 100
COMMENT_EVERY: Final = 15.0
"""Seconds. A comment keeps the connection open, and finds out when nobody listens any more."""
COMMENT: Final = ":\n\n"


@dataclass(kw_only=True, eq=False)
class Streams:
    """Those of one process."""

    most: int = MOST_STREAMS
    comment_every: float = COMMENT_EVERY
    _open: int = 0

    def check(self) -> None:
        """Raise 503 when there are as many as there may be."""
        if self._open >= self.most:
            raise HTTPException(503, f"{self.most} streams are open already; close one, or ask again later")

    async def commented(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        """The events, the empty ones left out, with a comment where there was nothing else for a while."""
        async with self._counted():
            spoke = anyio.current_time()
            async for event in events:
                now = anyio.current_time()
                if event or now - spoke >= self.comment_every:
                    spoke = now
                    yield event or COMMENT

    async def lines(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        """The events as they are, for an answer that is no stream of server-sent events."""
        async with self._counted():
            async for event in events:
                yield event

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
