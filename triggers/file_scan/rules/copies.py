"""Copies that take the place of handled files: a folder copied to another disk, a bucket restored in place. Pure.

A new version is a copy if its content part is that of a handled one. Copies wait for the end of the scan that lists them. If
they are many, a person decides; else they are reported as other new versions are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from triggers.file_scan.rules.chain import HoldingRule, NewVersions
from triggers.file_scan.state.handled import HandledVersions
from triggers.file_scan.versions import CONTENT_AT, FileVersion, Moment, content_part, format_moment

FEWEST: Final = 20
"""The fewest new versions of which half are many copies."""
MOST_WAITING: Final = 100_000
"""The most copies that wait in memory; those behind them are counted, and left to the next scan."""
MOST_AT_ONCE: Final = 1_000
"""The most versions of one batch."""
_NONE: Final = array("q")


@dataclass(frozen=True, kw_only=True)
class CopyRule:
    """What copies have in common with what they replace, and what differs, in words for people.

    `within` in microseconds: they count as many only if those that are not older than what they replace were modified within
    it. None: it does not matter when they were modified.
    """

    same: str
    other: str
    within: int | None = None


@dataclass(frozen=True, kw_only=True)
class ManyCopies:
    """Copies that are half or more of the new versions of a scan. `since` is when the first such scan began."""

    new: int
    copies: int
    since: Moment
    rule: CopyRule

    def sentence(self, watcher: str) -> str:
        """Return what people see, with the remedy behind a semicolon."""
        return (
            f"{self.copies:,} of {self.new:,} new files have {self.rule.same} of files that were handled, but another {self.rule.other},"
            f" since {format_moment(self.since)}: they look like copies, and none of them was reported; put back what they replace, or"
            f" decide: `watcher rewind {watcher} --to here` counts them as handled, `watcher rewind {watcher} --to start` reports all"
            " files again; `on_copied: report` reports copies without a question"
        )


class Copies(HoldingRule):
    """The copies that the scans of one watcher meet wait for the end of the scan (`on_copied: stop`)."""

    __slots__ = (
        "_count",
        "_handled",
        "_is_due",
        "_is_used",
        "_known",
        "_new",
        "_newest",
        "_oldest",
        "_rule",
        "_waiting",
    )

    def __init__(self, handled: HandledVersions, rule: CopyRule | None) -> None:
        """`rule` None: copies do not wait, and are only adopted."""
        self._handled = handled
        self._rule = rule
        self._known = _NONE
        """The fingerprints that were handled when a scan began, sorted; some are forgotten by now."""
        self.begin()

    def begin(self) -> bool:
        self._waiting: list[FileVersion] | None = None
        self._new = self._count = 0
        self._oldest: Moment | None = None
        self._newest: Moment | None = None
        self._is_due = True
        self._is_used = self._rule is not None and len(self._handled) > 0
        """Whether the scan may meet copies that wait."""
        return self._is_used

    def __call__(self, page: NewVersions) -> NewVersions:
        return page.withheld(self._waits) if self._is_used else page

    def reported_at_once(self, versions: Sequence[FileVersion], *, is_scanning: bool) -> Sequence[FileVersion]:
        self._is_due |= not is_scanning
        return [version for version in versions if not self._originals_of(version.fingerprint)]

    def _waits(self, name: int, version: FileVersion) -> bool:
        """Count a new version of the scan, and return whether it is a copy."""
        self._new += 1
        originals, modified = self._originals_of(name), version.modified
        if not originals:
            return False
        self._count += 1
        if not all(modified < self._handled.members.get(each, 0) for each in originals):
            self._oldest = modified if self._oldest is None else min(modified, self._oldest)
            self._newest = modified if self._newest is None else max(modified, self._newest)
        self._waiting = self._waiting or []
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(version)
        return True

    def adopt(self, name: int, modified: Moment) -> bool:
        """Record a new version as handled if it is a copy, in the place of its original if that is certain."""
        originals = self._originals_of(name)
        if len(originals) == 1:
            self._handled.rename(originals.pop(), name, modified)
            return True
        if originals:
            self._handled.add(name, modified)
        return bool(originals)

    def many(self, since: Moment) -> ManyCopies | None:
        """Return the copies of the scan that is over if they are many."""
        rule = self._rule
        if rule is None or self._new < FEWEST or 2 * self._count < self._new:
            return None
        if rule.within is not None and (self._newest or 0) - (self._oldest or 0) > rule.within:
            return None
        return ManyCopies(new=self._new, copies=self._count, since=since, rule=rule)

    def leave(self) -> bool:
        """Leave the copies to the next scan, and return whether there are any."""
        self._waiting = None
        return self._count > 0

    def take(self, most: int) -> Sequence[FileVersion]:
        """Record so many of the copies that wait as handled, and return them: the scan is over, and they were not many."""
        waiting = self._waiting or []
        ready, self._waiting = waiting[:most], waiting[most:] or None
        for version in ready:
            self._handled.add(version.fingerprint, version.modified)
        return ready

    def _originals_of(self, name: int) -> set[int]:
        """Return the fingerprints of the versions handled before the scan that have the same content part."""
        known, content = self._sorted(), content_part(name)
        originals, place = set[int](), bisect_left(known, content << CONTENT_AT)
        while place < len(known) and content_part(known[place]) == content:
            if known[place] in self._handled:
                originals.add(known[place])
            place += 1
        return originals

    def _sorted(self) -> array[int]:
        """Return the sorted fingerprints, which the first question of a scan brings up to date. Most scans ask none."""
        if self._is_due:
            self._is_due = False
            added, handled = self._handled.added, self._handled
            if added is None or 2 * len(added) > len(self._known):
                self._known = array("q", sorted(chain(handled.members, handled.absent)))
            elif added:
                self._known = array("q", sorted(chain(self._known, added)))
            handled.added = []
        return self._known
