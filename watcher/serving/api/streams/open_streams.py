"""Limits of answers that continue for as long as a client listens. Their number is limited, and none is silent for long."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
from fastapi import HTTPException

MOST_STREAMS: Final = 100
COMMENT_EVERY: Final = 15.0
"""Seconds between comments. A comment keeps the connection open, and detects when the client has left."""
COMMENT: Final = ":\n\n"
ASK_EVERY: Final = 2.0
"""Seconds between two checks whether the client may still listen."""

MayListen = Callable[[], Awaitable[bool]]
"""Checks whether the token or session that opened a stream is still valid."""


@dataclass(kw_only=True, eq=False)
class Streams:
    """The open streams of one process."""

    most: int = MOST_STREAMS
    comment_every: float = COMMENT_EVERY
    ask_every: float = ASK_EVERY
    _open: int = 0

    def check(self) -> None:
        """Raise 503 when the maximum number of streams is open."""
        if self._open >= self.most:
            raise HTTPException(503, f"{self.most} streams are open already; close one, or retry later")

    async def commented(self, events: AsyncIterator[str], may_listen: MayListen) -> AsyncGenerator[str, None]:
        """Yield the `lines` except empty ones, and a comment after each period without any."""
        sent_at = anyio.current_time()
        async with aclosing(self.lines(events, may_listen)) as lines:
            async for event in lines:
                now = anyio.current_time()
                if event or now - sent_at >= self.comment_every:
                    sent_at = now
                    yield event or COMMENT

    async def lines(self, events: AsyncIterator[str], may_listen: MayListen) -> AsyncGenerator[str, None]:
        """Yield the events unchanged until they end, or until the client may no longer listen."""
        asked_at = anyio.current_time()
        async with self._counted():
            async for event in events:
                if anyio.current_time() - asked_at >= self.ask_every:
                    if not await may_listen():
                        return
                    asked_at = anyio.current_time()
                yield event

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
