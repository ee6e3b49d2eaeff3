"""A plug-in as a third party writes one: new notices on a board that speaks HTTP, and the connection to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
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
    async def open(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        headers = {"Authorization": f"Bearer {self.token.get_secret_value()}"}
        timeout = self.timeout.total_seconds()
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=timeout, trust_env=False) as client:
            yield client

    def reveal_to_jobs(self) -> JsonObject:
        return {"url": self.url, "token": self.token.get_secret_value()}


class NewNoticesOptions(BaseOptions):
    topic: str
    interval: Duration = timedelta(seconds=5)
    page_size: int = Field(default=100, ge=1)


class NewNotices(IncrementalTrigger[NewNoticesOptions, httpx.AsyncClient]):
    """Notices are numbered from 1 and never change: the highest number seen is the whole position."""

    Options = NewNoticesOptions
    connection_type = "notice_board.BoardConnection"
    _seen: int | None = None

    @classmethod
    def describe(cls, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:
        assert isinstance(watermark, Mapping)
        if watermark["posted"] is None:
            return "the board was not read yet", {}
        waiting = watermark["posted"] - watermark["up_to"]
        return f"{waiting} notices are waiting" if waiting else "", {"notices_waiting": waiting}

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    async def check(self) -> list[Finding]:
        await self._read(after=0)
        return [Finding.ok("board", f"{self.client.base_url} is read")]

    def source_identity(self) -> JsonObject:
        return {"board": str(self.client.base_url), "topic": self.options.topic}

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if self._seen is None:
            stored: Any = None if position is None else position.state
            self._seen = 0 if stored is None else stored["seen"]
            if position is None:
                yield TriggerBatch(position=_position(0), caught_up=False)
        posted = None
        while posted is None or self._seen < posted:
            notices, posted = await self._read(after=self._seen)
            if not notices:
                return
            start, self._seen = self._seen, notices[-1]["number"]
            event = TriggerEvent(
                count=len(notices), watermark={"from": start, "to": self._seen}, payload={"notices": notices}
            )
            yield TriggerBatch(events=[event], position=_position(self._seen, posted), caught_up=self._seen == posted)

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002  the past does not matter
        if to != "start" and not to.isdecimal():
            raise ConfigurationError(f"there is no notice {to!r}; write a number, or start")
        return _position(0 if to == "start" else int(to))

    async def _read(self, *, after: int) -> tuple[list[Any], int]:
        query: dict[str, Any] = {"after": after, "limit": self.options.page_size}
        try:
            response = await self.client.get(f"/{self.options.topic}", params=query)
        except httpx.TransportError as error:
            raise SourceUnavailable(f"the board did not answer ({error}); check the connection's url") from error
        if response.is_client_error:
            raise ConfigurationError(f"the board refused with {response.status_code}; check the connection's token")
        if response.is_error:
            raise SourceUnavailable(f"the board answered {response.status_code}")
        page = response.json()
        return page["notices"], page["posted"]


def _position(seen: int, posted: int | None = None) -> Position:
    return Position(watermark={"up_to": seen, "posted": posted}, state={"seen": seen}, rows=RowChanges(clear=True))
