"""Lists all files of a source, each judged by the watcher's position."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Final, Generic, TypeAlias

from triggers.base import StoredPosition
from triggers.explanations import ItemState
from triggers.file_scan.matching import Matcher
from triggers.file_scan.options import FileOptions, FileOptionsT, start_of
from triggers.file_scan.questions.explanation import SeenFile, judge, scan_of
from triggers.file_scan.state.scan_state import ScanState
from triggers.file_scan.versions import NOT_SELECTED, FileVersion, Moment, ScanPage, length_of, parse_moment
from triggers.inventories import ListedInventory, ListedItem, ListedPart, ListedState, PositionOf, content_text

AT_ONCE: Final = 5_000
"""About so many files are judged by one reading of the position."""
_Place: TypeAlias = tuple[int, int]
"""The place of a file in its page, and its fingerprint."""
_SelectedFiles: TypeAlias = tuple[ScanPage, Sequence[_Place]]
_STATES: Final[Mapping[ItemState, ListedState]] = {
    "reported": "done",
    "waiting": "waiting",
    "before_start": "before_start",
}


class ListedFiles(Generic[FileOptionsT]):
    """The part of a trigger for files that lists all files of its source."""

    options: FileOptionsT
    _matcher: Matcher

    @abstractmethod
    def pages(self, after: str | None) -> AsyncGenerator[ScanPage, None]:
        """Scan the source behind a key, as for a poll."""

    def inventory(self) -> ListedInventory[StoredPosition]:
        options = self.options
        return ListedInventory(
            pages=lambda position_of: _listed_files(self.pages(None), options, position_of),
            begins_at=lambda watermark: _begins_at(watermark, options.min_age),
            start=options.start_from,
            place_of=start_of,
            selects=lambda name: self._matcher(options.name_below(name)),
        )


async def _listed_files(
    pages: AsyncGenerator[ScanPage, None], options: FileOptions, position_of: PositionOf[StoredPosition]
) -> AsyncGenerator[ListedPart, None]:
    """List the files of one scan in key order."""
    async with aclosing(pages):
        waiting: list[_SelectedFiles] = []
        async for page in pages:
            waiting.append((page, [place for place in enumerate(page.fingerprints()) if place[1] != NOT_SELECTED]))
            if page.last is None or sum(len(each) for each, _ in waiting) >= AT_ONCE:
                fingerprints = [fingerprint for _, places in waiting for _, fingerprint in places]
                scan, handled = scan_of(options, await position_of(fingerprints))
                for each, places in waiting:
                    yield each.clock, [*_items_of(each, places, options, scan, handled)]
                waiting = []


def _items_of(
    page: ScanPage, places: Sequence[_Place], options: FileOptions, scan: ScanState, handled: Mapping[int, int]
) -> Iterator[ListedItem]:
    begins_anywhere = options.start in {"now", "all"} and scan.baseline != "now"
    for place, fingerprint in places:
        version = page.version(place, fingerprint)
        if begins_anywhere and scan.accounts_for(version, handled):
            state: ListedState = "done"  # as `judge` says, which makes a sentence of it
        else:
            state = _state_of(version, page.clock, options, scan, handled)
        if version.fault is not None:
            yield ListedItem(version.key, None, version.modified, "rejected" if state == "done" else state)
            continue
        content = version.describe()
        yield ListedItem(str(content.get("key") or content["path"]), content_text(content), version.modified, state)


def _state_of(
    version: FileVersion, clock: Moment, options: FileOptions, scan: ScanState, handled: Mapping[int, int]
) -> ListedState:
    seen = SeenFile(version=version, size=options.min_size, clock=clock, is_selected=True)
    judged, _, facts = judge(seen, options, scan, handled)
    return "young" if facts.get("reason") == "min_age" else _STATES[judged]


def _begins_at(watermark: Any, min_age: timedelta) -> int | None:
    """Return when the scan began that a watermark is of: what was written before it, a start at `now` passes over."""
    if not isinstance(watermark, Mapping):
        return None
    scan, up_to = watermark.get("scan"), watermark.get("up_to")
    if isinstance(scan, Mapping):
        return parse_moment(str(scan["began"]))
    return None if up_to is None else parse_moment(str(up_to)) + length_of(min_age)
