"""One listing for all settled watchers of a bucket and prefix, which asks whether it is still the one they all have seen.

A settled watcher waits for nothing but another listing, so that one look serves all who rest. Who has seen something else is
woken and given the pages, and handles them as if it had asked for them: it has rested since before they were asked for, so
that they are not older than what it remembers. Each listing has a task of its own: a slow bucket keeps nobody else waiting.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.errors import TriggerError
from triggers.file_scan.trigger import QuietLook
from triggers.s3.shared import DatedPage

PAGES: Final = 16
"""The most of a listing that is looked at together: it is kept until all whom it is news to have read it."""

Signature: TypeAlias = tuple[int, ...]
"""Of each page of a listing: what `ListedPage.signature` was."""
List: TypeAlias = Callable[[str, str, str | None], Awaitable[DatedPage]]
"""The page of a bucket and a prefix behind a key."""

log = structlog.get_logger()


class Place(NamedTuple):
    """What is listed, and every so many seconds."""

    bucket: str
    prefix: str
    interval: float


@dataclass(kw_only=True, eq=False)
class RestingWatcher:
    """For one rest of one watcher. `wake` is called when the listing is not the `known` one any more, or cannot be had."""

    known: Signature
    wake: Callable[[], None]
    has_findings: Callable[[], bool] = lambda: False
    """Whether people should be shown others than before the rest: then it is woken, too."""
    look: QuietLook | None = None
    """The last one that showed the known listing."""
    news: Sequence[DatedPage] | None = None
    """The whole of the listing for which it was woken."""

    def hear(self, pages: Sequence[DatedPage], began: float) -> None:
        if signature_of(pages) == self.known and not self.has_findings():
            self.look = QuietLook(began=began, clock=pages[0][1].moment)
        else:
            self.news = pages
            self.wake()


def signature_of(pages: Sequence[DatedPage]) -> Signature:
    return tuple(page.signature for page, _ in pages)


class ListingProbes:
    """Of one connection."""

    def __init__(self, list_page: List, tasks: TaskGroup, random: Callable[[], float] = random.random) -> None:
        """`random` draws jitter from [0, 1)."""
        self._list_page = list_page
        self._tasks = tasks
        self._random = random
        self._resting: dict[Place, set[RestingWatcher]] = {}

    @contextmanager
    def watching(self, place: Place, watcher: RestingWatcher) -> Iterator[None]:
        """Look for it until the block ends."""
        if place not in self._resting:
            self._resting[place] = set()
            self._tasks.start_soon(self._run, place, name=f"listing of {place.bucket}/{place.prefix}")
        self._resting[place].add(watcher)
        try:
            yield
        finally:
            self._resting[place].discard(watcher)

    async def _run(self, place: Place) -> None:
        resting = self._resting[place]
        while resting:
            await anyio.sleep(place.interval * (1 + self._random() / 10))
            if resting:
                await self._look(place, resting)
        del self._resting[place]

    async def _look(self, place: Place, resting: Collection[RestingWatcher]) -> None:
        """For those who rest from before it begins until it has ended."""
        watchers, began = tuple(resting), monotonic()
        try:
            pages = await self._pages(place)
        except Exception as error:  # nobody may be left to rest by a bug here
            unexpected = not isinstance(error, TriggerError)
            log.debug(
                "s3.probe_failed", bucket=place.bucket, prefix=place.prefix, error=str(error), exc_info=unexpected
            )
            pages = None
        for watcher in watchers:
            if watcher not in resting:
                continue
            if pages is None:  # it finds out by itself what is wrong
                watcher.wake()
            else:
                watcher.hear(pages, began)

    async def _pages(self, place: Place) -> Sequence[DatedPage] | None:
        """None when there are too many."""
        pages: list[DatedPage] = []
        after = None
        while len(pages) < PAGES:
            pages.append(await self._list_page(place.bucket, place.prefix, after))
            after = pages[-1][0].last
            if after is None:
                return pages
        return None
