"""The poll that `s3.new_files` and `file.new_files` share: one scan, page by page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import timedelta
from typing import Final, Generic, TypeVar

import anyio
import structlog

from triggers.base import (
    ClientT,
    IncrementalTrigger,
    Position,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
    TriggerEvent,
)
from triggers.errors import ConfigurationError
from triggers.file_scan.options import FileOptions
from triggers.file_scan.scanner import Scanner, Step
from triggers.file_scan.state import ScanState, Start
from triggers.file_scan.versions import Page, length_of, parse_moment

SILENCE: Final = 10.0
"""Seconds after which a scan that still goes on says how far it is."""

FileOptionsT = TypeVar("FileOptionsT", bound=FileOptions)

log = structlog.get_logger()


class NewFiles(IncrementalTrigger[FileOptionsT, ClientT], Generic[FileOptionsT, ClientT]):
    """Authors say how the source is listed; which files are new, and what is kept, is decided here for all of them."""

    def __init__(self, options: FileOptionsT, client: ClientT, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        self._scanner: Scanner | None = None

    @abstractmethod
    def pages(self, after: str | None) -> AsyncGenerator[Page, None]:
        """One scan of the source in key order, from the first key behind `after` on; at least one page."""

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        scanner = self.scanner_from(position)
        progress = _Progress()
        async with aclosing(self.pages(scanner.cursor)) as pages:
            async for page in pages:
                step = scanner.advance(page, now=anyio.current_time())
                progress.report(page)
                # Also for a page without anything new: the deadline is one page's, not the whole scan's.
                yield self.batch_of(step, caught_up=page.last is None)

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002 - the past does not matter
        state = ScanState.starting(_start_of(to))
        return Position(watermark=state.watermark(seen=0), state=state.to_json(), rows=RowChanges(clear=True))

    def scanner_from(self, position: StoredPosition | None) -> Scanner:
        """The scanner of this instance, made from `position` when it is first asked for."""
        if self._scanner is None:
            self._scanner = Scanner(
                self.options.algorithm(),
                position,
                start=self.options.start_from,
                min_age=length_of(self.options.min_age),
                now=anyio.current_time(),
            )
        return self._scanner

    def batch_of(self, step: Step, *, caught_up: bool) -> TriggerBatch:
        return TriggerBatch(events=[*self._events(step)], position=step.position, caught_up=caught_up)

    def _events(self, step: Step) -> Iterator[TriggerEvent]:
        most = self.options.batch.max_files
        for first in range(0, len(step.versions), most):
            files = [version.describe() for version in step.versions[first : first + most]]
            yield TriggerEvent(count=len(files), watermark=step.watermark, payload={"files": files})


class _Progress:
    """Of one scan, so that the first look at a large source is not silent."""

    def __init__(self) -> None:
        self._listed = 0
        self._logged_at = anyio.current_time()

    def report(self, page: Page) -> None:
        self._listed += len(page)
        now = anyio.current_time()
        if page.last is not None and now - self._logged_at >= SILENCE:
            self._logged_at = now
            log.info("watcher.scanning", count=self._listed, key=page.last)


def _start_of(to: str) -> Start:
    """What `start` would have to be for a watcher that begins where a rewind goes `to`."""
    if to == "now":
        return "now"
    if to == "start":
        return "all"
    try:
        return parse_moment(to)
    except ValueError:
        raise ConfigurationError(
            f"{to!r} is no place to rewind to; write now, start, or an ISO timestamp like 2026-11-20T09:00:00Z"
        ) from None
