"""Many files that vanish at once: a mount may be lost, or a listing cut. It is judged by the numbers of whole scans. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from triggers.errors import Finding
from triggers.file_scan.versions import SECOND, Moment, format_moment

FEWEST: Final = 20
"""The fewest known versions of which half make a mass."""


@dataclass(frozen=True, kw_only=True)
class ScanCount:
    """The numbers of a whole scan. A fingerprint does not show the path, so each fresh version may replace a missing one."""

    known: int
    """The handled versions that were there before it."""
    missing: int
    """Those of them that it did not list."""
    fresh: int
    """The versions that it listed and that were not handled before it, also those that were too young."""
    is_certain: bool = True
    """Whether the `known` ones are those that an earlier scan listed; else all that is remembered, some of it overwritten."""

    @property
    def replaced(self) -> int:
        """The missing versions that others may have replaced, at most: a file that was overwritten did not vanish."""
        return min(self.missing, self.fresh)

    @property
    def is_mass(self) -> bool:
        return self.known >= FEWEST and 2 * (self.missing - self.replaced) >= self.known


@dataclass(slots=True)
class Tally:
    """Counts the versions that a scan lists: those that were handled before, and others."""

    met: int = 0
    fresh: int = 0
    hinted: int = 0

    def note_hints(self, before: Tally) -> None:
        """Take what was counted since `before` as brought by hints. It counts for two scans: either may miss what it replaces."""
        self.hinted += self.fresh - before.fresh
        self.met = before.met

    def next(self) -> Tally:
        """Return the tally of the scan that follows."""
        return Tally(fresh=self.hinted)


@dataclass(frozen=True, kw_only=True)
class Vanished:
    """A mass of files that vanished: `count` of the `known` ones are still not listed."""

    since: Moment
    known: int
    count: int
    replaced: int
    """The versions that are absent since then, but that others replaced."""
    is_certain: bool = True
    """Whether the scan that met the mass could tell what was overwritten before it. If not, anything that is listed ends it."""

    def finding(self, forget_after: int | None) -> Finding:
        """Return what people see. `forget_after` in microseconds; None: what comes back is never reported again."""
        remedy = "if they were removed on purpose, nothing is to be done"
        if forget_after is None:
            back = "if they come back as they were, none is reported again"
        else:
            back = f"if they come back as they were before {format_moment(self.since + forget_after)}, none is reported again"
        what = f"{self.count:,} of {self.known:,} files that were handled are"
        if not self.is_certain:
            what = f"none of {self.known:,} files that were handled, some of them overwritten or left out since, perhaps, is"
        return Finding.warning(
            "vanished",
            f"{what} not listed any more, since {format_moment(self.since)}: a mount may be lost, or a listing cut",
            f"{remedy}; {back}",
        )


def is_certain(vanished: Vanished | None) -> bool:
    """Whether files vanished in a scan that could tell what was overwritten before it."""
    return vanished is not None and vanished.is_certain


def vanished_after(
    before: Vanished | None, count: ScanCount | None, absent: Callable[[Moment], int | None], began: Moment
) -> Vanished | None:
    """Return what is vanished once the scan that began then is over. It ends when less than half of a mass is still gone.

    `count` None: the scan shows nothing about what vanished in it. `absent` counts the versions absent since a moment, where that is known.
    """
    if before is not None:
        gone = absent(before.since)
        return before if gone is None else _counted(before, gone, 0 if count is None else count.replaced)
    if count is None or not count.is_mass:
        return None
    since = began // SECOND * SECOND
    gone = absent(since) or 0
    mass = Vanished(since=since, known=count.known, count=0, replaced=gone - count.missing, is_certain=count.is_certain)
    return _counted(mass, gone, count.replaced)


def _counted(mass: Vanished, gone: int, replaced: int) -> Vanished | None:
    """Return a mass when so many versions are absent since then, and so many more were replaced; None: it is over."""
    replaced += mass.replaced
    after = replace(mass, count=max(0, gone - replaced), replaced=replaced)
    return after if 2 * after.count >= after.known else None
