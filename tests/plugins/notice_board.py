"""A plug-in as a third party writes one: new notices on a board that speaks HTTP, and the connection to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
from pydantic import Field, SecretStr

from triggers.base import (
    BaseConnection,
    BaseOptions,
    Finding,
    IncrementalTrigger,
    JsonObject,
    JsonValue,
    Position,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerEvent,
)
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.options import Duration


class BoardConnection(BaseConnection):
    url: str = Field(pattern="^https?://")
    token: SecretStr
    timeout: Duration = timedelta(seconds=10)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Board, None]:
        headers = {"Authorization": f"Bearer {self.token.get_secret_value()}"}
        timeout = aiohttp.ClientTimeout(total=self.timeout.total_seconds())
        session = aiohttp.ClientSession(headers=headers, timeout=timeout)
        async with session as http:
            yield Board(url=self.url.rstrip("/"), http=http)

    def reveal_to_jobs(self) -> JsonObject:
        return {"url": self.url, "token": self.token.get_secret_value()}


@dataclass(frozen=True, kw_only=True)
class Board:
    """The client that all watchers of one connection share."""

    url: str
    http: aiohttp.ClientSession

    async def read(self, topic: str, *, after: int, limit: int) -> tuple[list[Any], int]:
        """Return the first notices after a number, and the number of all of them."""
        try:
            async with self.http.get(f"{self.url}/{topic}", params={"after": after, "limit": limit}) as response:
                if response.status in {401, 403}:
                    raise ConfigurationError("the board refused to be read; check the connection's token")
                response.raise_for_status()
                page = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SourceUnavailable(f"the board did not answer ({error}); check the connection's url") from error
        return page["notices"], page["posted"]


class NewNoticesOptions(BaseOptions):
    topic: str
    interval: Duration = timedelta(seconds=5)
    page_size: int = Field(default=100, ge=1)


class NewNotices(IncrementalTrigger[NewNoticesOptions, Board]):
    """Emits new notices. They are numbered from 1 and never change, so the highest number seen is the whole position."""

    Options = NewNoticesOptions
    connection_type = "notice_board.BoardConnection"
    _seen: int | None = None

    @classmethod
    def describe(cls, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:
        assert isinstance(watermark, Mapping)
        if watermark["posted"] is None:
            return "the board was not read yet", {}
        waiting = watermark["posted"] - watermark["up_to"]
        sentence = f"{waiting} notices are waiting" if waiting else ""
        return sentence, {"notices_waiting": waiting}

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    async def check(self) -> list[Finding]:
        await self.client.read(self.options.topic, after=0, limit=1)
        return [Finding.ok("board", f"{self.client.url} is read")]

    def source_identity(self) -> JsonObject:
        return {"board": self.client.url, "topic": self.options.topic}

    def recognizes(self, stored: JsonValue) -> bool:
        """Whether it is an identity of the first release, which did not name the board."""
        return stored == {"topic": self.options.topic}

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if self._seen is None:
            stored: Any = None if position is None else position.state
            self._seen = 0 if stored is None else stored["seen"]
            if position is None:
                yield TriggerBatch(position=_position(0), caught_up=False)
        posted, options = None, self.options
        while posted is None or self._seen < posted:
            notices, posted = await self.client.read(options.topic, after=self._seen, limit=options.page_size)
            if not notices:
                return
            start, self._seen = self._seen, notices[-1]["number"]
            event = TriggerEvent(
                count=len(notices), watermark={"from": start, "to": self._seen}, payload={"notices": notices}
            )
            yield TriggerBatch(events=[event], position=_position(self._seen, posted), caught_up=self._seen == posted)

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002  the old position does not matter
        if to != "start" and not to.isdecimal():
            raise ConfigurationError(f"there is no notice {to!r}; write a number, or start")
        return _position(0 if to == "start" else int(to))


def _position(seen: int, posted: int | None = None) -> Position:
    return Position(watermark={"up_to": seen, "posted": posted}, state={"seen": seen}, rows=RowChanges(clear=True))
