"""One listing for many members: when they join, and that nobody waits for slow ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import anyio
import pytest

from triggers.errors import SourceUnavailable
from triggers.s3 import shared
from triggers.s3.clock import ClockReading
from triggers.s3.pages import ListedPage
from triggers.s3.shared import BUFFER, DatedPage, SharedListing


class Source:
    """A source with pages of one key each; fetches wait until `held` is set."""

    def __init__(self, pages: int) -> None:
        self.keys = [f"{number:03}" for number in range(pages)]
        self.fetched: list[str | None] = []
        self.held = anyio.Event()
        self.held.set()
        self.failure: SourceUnavailable | None = None

    async def fetch(self, after: str | None) -> DatedPage:
        self.fetched.append(after)
        await self.held.wait()
        await anyio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        key = next(key for key in self.keys if after is None or key > after)
        row = (key.encode(), b"", b"", b"")
        return ListedPage(rows=[row], url_encoded=False, truncated=key != self.keys[-1]), ClockReading(moment=0)


async def whole(listing: SharedListing, *, first: bool = False) -> Sequence[str]:
    async with aclosing(listing.whole(first=first)) as pages:
        return [page.key(page.rows[0]) async for page, _ in pages]


async def a_few_steps() -> None:
    """Let the other tasks take a few steps: members do not arrive at once."""
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


async def resting_then_whole(listing: SharedListing, resting: anyio.Event, read: list[Sequence[str]]) -> None:
    woken = anyio.Event()
    with listing.resting(woken.set, at_least=0):
        resting.set()
        await woken.wait()
    await a_few_steps()
    read.append(await whole(listing))


async def test_members_that_come_together_share_their_first_scan() -> None:
    source, read = Source(5), []
    listing = SharedListing(source.fetch)

    async def member() -> None:
        read.append(await whole(listing, first=True))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(member)
            await a_few_steps()
    assert read == [source.keys] * 20
    assert len(source.fetched) == 5


async def test_a_scan_wakes_the_members_at_rest_and_waits_for_them() -> None:
    source, read = Source(5), []
    listing = SharedListing(source.fetch)
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            resting = anyio.Event()
            tasks.start_soon(resting_then_whole, listing, resting, read)
            await resting.wait()
        read.append(await whole(listing))
    assert read == [source.keys] * 11
    assert len(source.fetched) == 5


async def test_a_member_that_has_not_rested_long_enough_is_not_woken() -> None:
    source = Source(1)
    listing = SharedListing(source.fetch)
    woken = anyio.Event()
    with listing.resting(woken.set, at_least=100):
        await whole(listing)
    assert not woken.is_set()


async def test_a_woken_member_that_never_comes_delays_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "PATIENCE", 0.01)
    source = Source(2)
    listing = SharedListing(source.fetch)
    with listing.resting(lambda: None, at_least=0):
        assert await whole(listing) == source.keys


async def test_no_member_joins_after_the_first_page_was_asked_for() -> None:
    """The first page may be older than what the member remembers."""
    source = Source(3)
    source.held = anyio.Event()
    listing = SharedListing(source.fetch)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(whole, listing)
        await anyio.wait_all_tasks_blocked()
        assert source.fetched == [None]
        tasks.start_soon(whole, listing)
        await anyio.wait_all_tasks_blocked()
        assert source.fetched == [None, None]
        source.held.set()
    assert len(source.fetched) == 6


async def test_a_slow_member_reads_from_the_buffer_and_then_goes_on_alone() -> None:
    pages = 3 * BUFFER
    source = Source(pages)
    listing = SharedListing(source.fetch)
    slow = listing.whole(first=True)
    read: list[str] = []
    fast: list[Sequence[str]] = []

    async def quick() -> None:
        fast.append(await whole(listing, first=True))

    async with aclosing(slow), anyio.create_task_group() as tasks:
        tasks.start_soon(quick)
        page, _ = await anext(slow)
        read.append(page.key(page.rows[0]))
        await anyio.wait_all_tasks_blocked()
        assert fast == [source.keys], "it did not wait"
        assert len(source.fetched) == pages
        async for page, _ in slow:
            read.append(page.key(page.rows[0]))
    assert read == source.keys
    assert source.fetched[pages:] == source.keys[: pages - 1], "alone from the second page on"


async def test_a_member_less_than_the_buffer_behind_asks_for_nothing() -> None:
    source = Source(BUFFER)
    listing = SharedListing(source.fetch)
    slow = listing.whole(first=True)
    async with aclosing(slow), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: whole(listing, first=True))
        await anext(slow)
        await anyio.wait_all_tasks_blocked()
        assert len([page async for page in slow]) == BUFFER - 1
    assert len(source.fetched) == BUFFER


async def test_pages_that_all_members_have_read_are_discarded() -> None:
    source = Source(4)
    listing = SharedListing(source.fetch)
    async with aclosing(listing.whole(first=False)) as pages:
        async for _ in pages:
            assert listing._scan is not None
            assert len(listing._scan._pages) == 0


async def test_a_failure_reaches_all_members_and_the_next_scan_is_a_new_one() -> None:
    source = Source(2)
    source.failure = SourceUnavailable("down")
    listing = SharedListing(source.fetch)
    failed = []

    async def member() -> None:
        with pytest.raises(SourceUnavailable, match="down"):
            await whole(listing, first=True)
        failed.append(True)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(member)
    assert len(failed) == 3
    assert len(source.fetched) == 1
    source.failure = None
    assert await whole(listing) == source.keys


async def test_a_member_cancelled_while_it_fetches_leaves_the_page_to_the_others() -> None:
    source = Source(3)
    source.held = anyio.Event()
    listing = SharedListing(source.fetch)
    read: list[Sequence[str]] = []

    async def member() -> None:
        read.append(await whole(listing, first=True))

    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.3):
            tasks.start_soon(member)
            await whole(listing, first=True)
        source.held.set()
    assert read == [source.keys]
