"""What the rules of a watcher of files have in common: each takes a page of new versions, and returns a page.

A watcher has the rules that its options ask for, made once. They are asked in a fixed order, and only for pages that have new
versions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from triggers.file_scan.versions import FileVersion, Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVersions:
    """The new versions of a page, as far as the rules have come, by their fingerprints and in key order."""

    versions: Mapping[int, FileVersion]
    """Those to report."""
    clock: Moment
    """The page's clock."""
    since: Moment | None = None
    """Later scans meet only what was modified at this moment or later, so that older versions cannot wait. None: they meet all."""
    waiting: Mapping[int, FileVersion] = field(default_factory=dict)
    """Neither reported nor recorded: a later scan decides about them."""
    stopped_at: FileVersion | None = None
    """The scan must stop at this version. It and those behind it are not in `versions`."""

    def withheld(self, waits: Callable[[int, FileVersion], bool]) -> NewVersions:
        """Return the page without the versions that wait, of those that can."""
        waiting = {
            name: version
            for name, version in self.versions.items()
            if (self.since is None or version.modified >= self.since) and waits(name, version)
        }
        if not waiting:
            return self
        versions = {name: version for name, version in self.versions.items() if name not in waiting}
        return replace(self, versions=versions, waiting={**self.waiting, **waiting})


class PageRule(ABC):
    """One reason for which a new version is not reported now."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, page: NewVersions) -> NewVersions:
        """Return the page as this rule leaves it."""


class HoldingRule(PageRule):
    """A rule that withholds versions until the end of a scan. It remembers them."""

    __slots__ = ()

    @abstractmethod
    def begin(self) -> bool:
        """Note that a scan begins, and return whether it may meet versions that wait. Then it records all that it reports."""

    @abstractmethod
    def reported_at_once(self, versions: Sequence[FileVersion], *, is_scanning: bool) -> Sequence[FileVersion]:
        """Return those of the versions of a hint that need not wait for the end of a scan. `is_scanning`: one is under way."""
