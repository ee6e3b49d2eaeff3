"""Many clients follow one log: its files are read once, and every client gets every line once."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from tests.effort import PATIENCE
from watcher.host.logs import followers
from watcher.host.logs.followers import Followers
from watcher.host.logs.reader import Log, Record

MANY = 100


@dataclass
class Watched:
    """A log that counts how often its files are checked."""

    path: Path
    looks: int = 0
    shown: list[Record] = field(default_factory=list)
    stopping: anyio.Event = field(default_factory=anyio.Event)

    def logs(self) -> Sequence[Log]:
        self.looks += 1
        return [[self.path]]

    def show(self, record: Record) -> str:
        self.shown.append(record)
        return f"{record['event']} "

    def append(self, *events: str) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{json.dumps({'event': event})}\n" for event in events)

    def follow(self, all_followers: Followers) -> AsyncGenerator[str, None]:
        return all_followers.follow("log", self.logs, self.show, self.stopping)


@pytest.fixture
def log(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "a.log")


async def next_text(stream: AsyncGenerator[str, None]) -> str:
    with anyio.fail_after(PATIENCE):
        while not (text := await anext(stream)):
            pass
    return text


async def next_texts(streams: Sequence[AsyncGenerator[str, None]]) -> list[str]:
    """Return the next texts of several streams, read at the same time."""
    texts: list[str] = []

    async def take(stream: AsyncGenerator[str, None]) -> None:
        texts.append(await next_text(stream))

    async with anyio.create_task_group() as tasks:
        for stream in streams:
            tasks.start_soon(take, stream)
    return texts


async def test_one_check_serves_a_hundred_clients_and_formats_each_line_once(log: Watched) -> None:
    log.append("before")
    all_followers = Followers()
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(aclosing(log.follow(all_followers))) for _ in range(MANY)]
        assert [await anext(stream) for stream in streams] == [""] * MANY
        (shared,) = all_followers._tails.values()
        log.append("a", "b")
        before, shared.read_at = log.looks, -math.inf
        async with anyio.create_task_group() as tasks:
            for _ in streams:
                tasks.start_soon(shared.read, 3600.0)
        assert log.looks == before + 1
        assert await next_texts(streams) == ["a b "] * MANY
        assert [record["event"] for record in log.shown] == ["a", "b"]
    assert all_followers._tails == {}


async def test_a_later_client_gets_later_lines(log: Watched) -> None:
    all_followers = Followers()
    async with aclosing(log.follow(all_followers)) as first, aclosing(log.follow(all_followers)) as second:
        assert await anext(first) == ""
        log.append("a")
        assert await anext(second) == ""
        log.append("b")
        assert await next_text(second) == "b "
        assert await next_text(first) in {"a ", "a b "}


async def test_a_client_that_is_too_far_behind_is_disconnected(log: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "MOST_PENDING", 10)
    all_followers = Followers()
    async with aclosing(log.follow(all_followers)) as slow:
        assert await anext(slow) == ""
        log.append("1234567890", "1234567890")
        with anyio.fail_after(PATIENCE):
            assert [text async for text in slow if text] == []
    assert all_followers._tails == {}


async def test_streams_end_when_the_process_ends(log: Watched) -> None:
    async with aclosing(log.follow(Followers())) as stream:
        assert await anext(stream) == ""
        log.stopping.set()
        assert [text async for text in stream] == []
