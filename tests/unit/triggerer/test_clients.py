"""Clients of connections are opened once, shared, and replaced without closing one that is in use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from pydantic import PrivateAttr, SecretStr

from tests.effort import PATIENCE
from triggers.base import BaseConnection, BaseEventTrigger, JsonObject
from triggers.errors import SourceUnavailable
from watcher.triggerer.clients import Clients

JOURNAL: list[str] = []


class JournalConnection(BaseConnection):
    token: SecretStr
    _slow: anyio.Event | None = PrivateAttr(default=None)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str, None]:
        token = self.token.get_secret_value()
        JOURNAL.append(f"open {token}")
        if self._slow is not None:
            await self._slow.wait()
        try:
            yield token
        finally:
            JOURNAL.append(f"close {token}")

    def reveal_to_jobs(self) -> JsonObject:
        return {}


def connection(token: str) -> JournalConnection:
    return JournalConnection(type="journal", token=SecretStr(token))


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    JOURNAL.clear()
    connections = {"lake": connection("old"), "shop": connection("shop")}
    async with anyio.create_task_group() as tasks:
        yield Clients(connections, tasks)
        tasks.cancel_scope.cancel()


async def until_journal(*lines: str) -> None:
    with anyio.fail_after(PATIENCE):
        while [*lines] != JOURNAL:
            await anyio.lowlevel.checkpoint()


async def test_a_rotated_secret_reaches_the_next_user_and_the_old_client_ends_with_its_last_user(
    clients: Clients,
) -> None:
    new = {"lake": connection("new"), "shop": connection("shop")}
    async with clients.use("shop") as shop:
        async with clients.use("lake") as before, clients.use("lake") as shared:
            assert (before, shared, shop) == ("old", "old", "shop")
            clients.replace(new, {"lake"})
            async with clients.use("lake") as after, clients.use("shop") as same:
                assert (after, same) == ("new", "shop")
            assert JOURNAL == ["open shop", "open old", "open new"], "who uses the old one keeps it"
        await until_journal("open shop", "open old", "open new", "close old")
    async with clients.use("lake") as again:
        assert again == "new"
    assert JOURNAL[-1] == "close old", "a client that is current stays open between users"


async def test_a_held_client_stays_open_after_its_block_and_a_replaced_one_cannot_be_held(
    clients: Clients,
) -> None:
    async with clients.use("lake") as before:
        let_go = clients.hold("lake", before)
        assert let_go is not None
    clients.replace({"lake": connection("new")}, {"lake"})
    assert clients.hold("lake", before) is None
    assert JOURNAL == ["open old"]
    let_go()
    await until_journal("open old", "close old")
    async with clients.use("lake") as after:
        assert (clients.hold("lake", before), after) == (None, "new")
    assert clients.hold(None, None) is not None, "without a connection there is nothing to keep open"


async def test_an_unused_client_ends_at_once_when_its_connection_is_removed(clients: Clients) -> None:
    async with clients.use("lake"):
        pass
    clients.replace({"shop": connection("shop")}, {"lake"})
    await until_journal("open old", "close old")
    with pytest.raises(SourceUnavailable, match="the connection lake is not configured any more"):
        async with clients.use("lake"):
            pass


async def test_a_client_opened_while_its_connection_changed_serves_only_one_user(
    clients: Clients,
) -> None:
    slow = connection("slow")
    slow._slow = anyio.Event()
    clients.replace({"lake": slow}, {"lake"})
    seen: list[str] = []

    async def use() -> None:
        async with clients.use("lake") as client:
            seen.append(client)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            while "open slow" not in JOURNAL:
                await anyio.lowlevel.checkpoint()
            clients.replace({"lake": connection("new")}, {"lake"})
            slow._slow.set()
    await until_journal("open slow", "close slow")
    async with clients.use("lake") as client:
        seen.append(client)
    assert seen == ["slow", "new"]


class FolderTrigger(BaseEventTrigger[Any, Any]):
    @classmethod
    @asynccontextmanager
    async def open_shared(cls) -> AsyncGenerator[str, None]:
        JOURNAL.append(f"open {cls.__name__}")
        try:
            yield cls.__name__
        finally:
            JOURNAL.append(f"close {cls.__name__}")


class OtherTrigger(FolderTrigger):
    pass


async def test_triggers_without_a_connection_share_the_client_that_their_class_opens_once(clients: Clients) -> None:
    assert [await clients.shared_by(trigger) for trigger in (FolderTrigger, OtherTrigger, FolderTrigger)] == [
        "FolderTrigger",
        "OtherTrigger",
        "FolderTrigger",
    ]
    assert JOURNAL == ["open FolderTrigger", "open OtherTrigger"]
