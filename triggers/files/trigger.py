"""The poll that `s3.new_files` and `file.new_files` share: one scan, page by page."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import timedelta
from typing import Generic, TypeVar

import anyio

from triggers.base import ClientT, IncrementalTrigger, StoredPosition, TriggerBatch, TriggerContext, TriggerEvent
from triggers.files.moments import length_of
from triggers.files.options import FileOptions
from triggers.files.scanner import Scanner, Step
from triggers.files.version import Page

FileOptionsT = TypeVar("FileOptionsT", bound=FileOptions)


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
        if self._scanner is None:
            self._scanner = self._scanner_from(position)
        async with aclosing(self.pages(self._scanner.cursor)) as pages:
            async for page in pages:
                step = self._scanner.advance(page, now=anyio.current_time())
                # Also for a page without anything new: the deadline is one page's, not the whole scan's.
                yield TriggerBatch(events=[*self._events(step)], position=step.position, caught_up=page.last is None)

    def _scanner_from(self, position: StoredPosition | None) -> Scanner:
        return Scanner(
            self.options.algorithm(),
            position,
            start=self.options.start_from,
            min_age=length_of(self.options.min_age),
            now=anyio.current_time(),
        )

    def _events(self, step: Step) -> Iterator[TriggerEvent]:
        most = self.options.batch.max_files
        for first in range(0, len(step.found), most):
            files = [version.describe() for version in step.found[first : first + most]]
            yield TriggerEvent(count=len(files), watermark=step.watermark, payload={"files": files})
