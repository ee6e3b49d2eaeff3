"""Answers that go on for as long as somebody listens: few of them, and never silent for long."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio
from fastapi import HTTPException

MOST_STREAMS: Final = 100
COMMENT_EVERY: Final = 15.0
"""Seconds. A comment keeps the connection open, and finds out when nobody listens any more."""
COMMENT: Final = ":\n\n"
ASK_EVERY: Final = 2.0
"""Seconds between two looks at whether the listener may still listen."""

MayListen = Callable[[], Awaitable[bool]]
"""Whether the token or session that opened a stream is still good."""


@dataclass(kw_only=True, eq=False)
class Streams:
    """Those of one process."""

    most: int = MOST_STREAMS
    comment_every: float = COMMENT_EVERY
    ask_every: float = ASK_EVERY
    _open: int = 0

    def check(self) -> None:
        """Raise 503 when there are as many as there may be."""
        if self._open >= self.most:
            raise HTTPException(503, f"{self.most} streams are open already; close one, or ask again later")

    async def commented(self, events: AsyncIterator[str], may_listen: MayListen) -> AsyncGenerator[str, None]:
        """The `lines` without the empty ones, with a comment where there was nothing else for a while."""
        spoke = anyio.current_time()
        async with aclosing(self.lines(events, may_listen)) as lines:
            async for event in lines:
                now = anyio.current_time()
                if event or now - spoke >= self.comment_every:
                    spoke = now
                    yield event or COMMENT

    async def lines(self, events: AsyncIterator[str], may_listen: MayListen) -> AsyncGenerator[str, None]:
        """The events as they are, until there are no more, or the listener may listen no more."""
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
