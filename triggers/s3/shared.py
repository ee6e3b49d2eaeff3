"""One listing for all watchers of a connection that list the same bucket and prefix; the watchers are its members.

The first member that is due starts a scan and wakes the members that have rested long enough. They join before the first
page is asked for and never later, since `strict` must not be shown a listing older than what it remembers. Nobody waits for a
slow member: it finds its next page in the buffer, or goes on alone. The listing has no task of its own: the member that needs
the next page first fetches it for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Final, TypeAlias

import anyio

from triggers.errors import TriggerError
from triggers.s3.clock import ClockReading
from triggers.s3.pages import ListedPage
from triggers.shared.delays import sleep_for

DatedPage: TypeAlias = tuple[ListedPage, ClockReading]
Fetch: TypeAlias = Callable[[str | None], Awaitable[DatedPage]]
"""Fetches the page behind a key, with the server's clock when it was made."""

BUFFER: Final = 16
"""Pages that a slow member may be behind, about a megabyte each."""
PATIENCE: Final = 1.0
"""Seconds that a scan waits for the members it woke."""
ARRIVAL: Final = 0.1
"""Seconds that a member's first scan waits for others: when a daemon starts, all come at once."""


class SharedListing:
    """The scans of one bucket and prefix. A member rests between its scans."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._resting: dict[Callable[[], None], float] = {}
        """The callback that wakes each member at rest, and the moment from which on it may be woken."""
        self._scan: _Scan | None = None
        """The scan that began last."""

    @contextmanager
    def resting(self, wake: Callable[[], None], *, at_least: float) -> Iterator[None]:
        """Rest while the block runs: a member that begins a scan after `at_least` seconds calls `wake`."""
        self._resting[wake] = anyio.current_time() + at_least
        try:
            yield
        finally:
            del self._resting[wake]

    async def whole(self, *, first: bool) -> AsyncGenerator[DatedPage, None]:
        """Scan from the start, with the members that join; `first`: this member's first scan. Raises what fetching raises."""
        if self._scan is None or not self._scan.can_be_joined:
            self._scan = self._begin(arrival=ARRIVAL if first else 0.0)
        last = None
        async with aclosing(self._scan.pages()) as pages:
            async for page in pages:
                yield page
                last = page[0].last
                if last is None:
                    return
        async for page in self.rest_of(last):
            yield page

    async def rest_of(self, after: str | None) -> AsyncGenerator[DatedPage, None]:
        """Scan what follows a key, alone."""
        while True:
            page = await self._fetch(after)
            yield page
            after = page[0].last
            if after is None:
                return

    def _begin(self, arrival: float) -> _Scan:
        now = anyio.current_time()
        rested = [wake for wake, rested_at in self._resting.items() if rested_at <= now]
        for wake in rested:
            wake()
        return _Scan(self._fetch, arrival=arrival, awaited=len(rested))


class _Scan:
    """A scan under way, with the pages that not all of its members have read; `BUFFER` pages at most."""

    def __init__(self, fetch: Fetch, *, arrival: float, awaited: int) -> None:
        self._fetch = fetch
        self._arrival = arrival
        self._awaited = awaited + 1
        """The number of members that may still join, including the one that begins."""
        self._all_here = anyio.Event()
        self.can_be_joined = True
        self._next: dict[object, int] = {}
        """The number of the page that each member reads next."""
        self._pages: deque[DatedPage] = deque()
        self._first = 0
        """The number of the first page in `_pages`."""
        self._after: str | None = None
        self._failure: TriggerError | None = None
        self._fetching = anyio.Lock()

    async def pages(self) -> AsyncGenerator[DatedPage, None]:
        """Yield the pages to one more member, until it is too far behind.

        A failure is raised to all members: the source would fail each of them.
        """
        member, number = object(), 0
        self._next[member] = 0
        self._awaited -= 1
        if self._awaited == 0:
            self._all_here.set()
        try:
            while True:
                if number == self._end:
                    async with self._fetching:
                        if number == self._end:  # else another member has fetched it
                            await self._fetch_next()
                if number < self._first:
                    return
                page = self._pages[number - self._first]
                number = self._next[member] = number + 1
                self._forget_read()
                yield page
        finally:
            del self._next[member]
            self._forget_read()

    @property
    def _end(self) -> int:
        return self._first + len(self._pages)

    async def _fetch_next(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self.can_be_joined:
            await self._gather()
        try:
            page = await self._fetch(self._after)
        except TriggerError as error:
            self._failure = error
            raise
        self._after = page[0].last
        if len(self._pages) == BUFFER:
            self._pages.popleft()
            self._first += 1
        self._pages.append(page)

    async def _gather(self) -> None:
        await sleep_for(self._arrival)
        with anyio.move_on_after(PATIENCE):
            await self._all_here.wait()
        self.can_be_joined = False

    def _forget_read(self) -> None:
        needed = min(self._next.values(), default=self._end)
        while self._pages and self._first < needed:
            self._pages.popleft()
            self._first += 1
