"""Shared polls of listings: one listing for all settled watchers of a bucket and prefix shows whether anything changed.

A settled watcher waits for nothing but another listing, so that one listing serves all watchers that rest. A watcher that knows
another listing is woken and given the pages. It handles them as if it had asked for them: it has rested since before they
were asked for, so they are not older than what it remembers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.errors import TriggerError
from triggers.file_scan.trigger import QuietPoll
from triggers.hosting import SharedPolls
from triggers.s3.shared import DatedPage

PAGES: Final = 16
"""The longest listing that is polled together: its pages are kept until all watchers that they are news to have read them."""

Signature: TypeAlias = tuple[int, ...]
"""The `ListedPage.signature` of each page of a listing."""
ListPage: TypeAlias = Callable[[str, str, str | None], Awaitable[DatedPage]]
"""Lists one page of a bucket and a prefix: the one behind a key."""

log = structlog.get_logger()


class ListedPlace(NamedTuple):
    """What is listed, the seconds between two polls of it, and how many seconds such a poll may take.

    What takes longer is left to the watchers' own polls, which have a limit of their own and say what is wrong.
    """

    bucket: str
    prefix: str
    interval: float
    patience: float


@dataclass(kw_only=True, eq=False)
class RestingWatcher:
    """One rest of one watcher. `wake` is called when the listing is not the `known` one any more, or cannot be had."""

    known: Signature
    wake: Callable[[], None]
    has_findings: Callable[[], bool] = lambda: False
    """Whether its findings differ from those before the rest: then it is woken, too."""
    last_quiet: QuietPoll | None = None
    """The last poll that showed the known listing."""
    news: Sequence[DatedPage] | None = None
    """The whole of the listing for which it was woken."""

    def hear(self, pages: Sequence[DatedPage], began: float) -> None:
        """Take the outcome of a shared poll that began at `began`."""
        if signature_of(pages) == self.known and not self.has_findings():
            self.last_quiet = QuietPoll(began=began, clock=pages[0][1].moment)
        else:
            self.news = pages
            self.wake()


def signature_of(pages: Sequence[DatedPage]) -> Signature:
    return tuple(page.signature for page, _ in pages)


class ListingProbes:
    """The shared polls of one connection."""

    def __init__(self, list_page: ListPage, tasks: TaskGroup) -> None:
        self._list_page = list_page
        self.polls = SharedPolls[ListedPlace, RestingWatcher](self.poll, tasks)

    def join(self, place: ListedPlace, watcher: RestingWatcher) -> None:
        """Poll for the watcher until it leaves."""
        self.polls.join(place, watcher, interval=place.interval)

    def leave(self, place: ListedPlace, watcher: RestingWatcher) -> None:
        self.polls.leave(place, watcher)

    async def poll(self, place: ListedPlace, resting: Collection[RestingWatcher]) -> None:
        """List the place once, for the watchers that rest from before the poll begins until it has ended."""
        watchers, began = tuple(resting), monotonic()
        pages = None
        try:
            with anyio.move_on_after(place.patience):
                pages = await self._pages(place)
        except Exception as error:  # a bug here must not leave anybody resting
            unexpected = not isinstance(error, TriggerError)
            log.debug(
                "s3.probe_failed", bucket=place.bucket, prefix=place.prefix, error=str(error), exc_info=unexpected
            )
        for watcher in watchers:
            if watcher not in resting:
                continue
            if pages is None:  # its own poll says what is wrong
                watcher.wake()
            else:
                watcher.hear(pages, began)

    async def _pages(self, place: ListedPlace) -> Sequence[DatedPage] | None:
        """All pages of the listing; None when there are more than `PAGES`."""
        pages: list[DatedPage] = []
        after = None
        while len(pages) < PAGES:
            pages.append(await self._list_page(place.bucket, place.prefix, after))
            after = pages[-1][0].last
            if after is None:
                return pages
        return None
