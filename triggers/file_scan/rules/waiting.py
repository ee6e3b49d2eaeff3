"""The rules by which a version waits for its age, stops the scan, or waits for all other versions (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from triggers.file_scan.rules.chain import HoldingRule, NewVersions, PageRule
from triggers.file_scan.versions import FileVersion


class MinAge(PageRule):
    """A version waits until it is so old (`min_age`), so that its writer can finish."""

    __slots__ = ("_min_age",)

    def __init__(self, min_age: int) -> None:
        """`min_age` in microseconds."""
        self._min_age = min_age

    def __call__(self, page: NewVersions) -> NewVersions:
        youngest = page.clock - self._min_age
        return page.withheld(lambda _, version: version.modified > youngest)


class StopAtFault(PageRule):
    """The scan stops at a version that no event can name (`on_bad_row: stop`)."""

    __slots__ = ()

    def __call__(self, page: NewVersions) -> NewVersions:
        for place, version in enumerate(page.versions.values()):
            if version.fault is not None:
                return replace(page, versions=dict(islice(page.versions.items(), place)), stopped_at=version)
        return page


class EmittedLast(HoldingRule):
    """Versions that vouch for others, such as `_SUCCESS`, are emitted after all else (`last`).

    They wait until a whole scan has followed the one that first listed them: then all that was there before them is emitted.
    They are not recorded until then, so that a crash only begins their waiting anew. One that cannot be read then waits for the
    next scan.
    """

    __slots__ = ("_before", "_listed", "_selects")

    def __init__(self, selects: Callable[[FileVersion], bool]) -> None:
        """`selects` says which versions are emitted last."""
        self._selects = selects
        self._listed: dict[int, FileVersion] = {}
        """The versions that were listed since the scan began, by their fingerprints."""
        self._before: AbstractSet[int] = frozenset()
        """Those that were listed before it began."""

    def begin(self) -> bool:
        self._before, self._listed = self._listed.keys(), {}
        return True

    def __call__(self, page: NewVersions) -> NewVersions:
        return page.withheld(self._waits)

    def reported_at_once(self, versions: Sequence[FileVersion], *, is_scanning: bool) -> Sequence[FileVersion]:  # noqa: ARG002 - the interface
        return [version for version in versions if not self._selects(version)]

    @property
    def ready(self) -> Sequence[FileVersion]:
        """The versions that need not wait any longer, after the end of a scan."""
        return [version for name, version in self._listed.items() if name in self._before]

    def take(self, versions: Iterable[FileVersion]) -> None:
        """Note that these versions wait no longer."""
        for version in versions:
            del self._listed[version.fingerprint]

    def _waits(self, name: int, version: FileVersion) -> bool:
        if version.fault is not None or not self._selects(version):
            return False
        self._listed[name] = version
        return True
