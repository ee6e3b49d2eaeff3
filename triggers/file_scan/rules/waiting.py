"""Versions that vouch for others, such as `_SUCCESS`, and are emitted after all else (pure).

They wait until a whole scan has followed the one that first listed them: then all that was there before them is emitted. They
are not recorded until then, so that a crash only begins their waiting anew. One that cannot be read then waits for the next scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from triggers.file_scan.versions import FileVersion


class EmittedLast:
    """The versions of one watcher that wait."""

    __slots__ = ("_before", "_listed", "_selects")

    def __init__(self, selects: Callable[[FileVersion], bool] | None) -> None:
        """`selects` says which versions are emitted last; None: there are none."""
        self._selects = selects
        self._listed: dict[int, FileVersion] = {}
        """The versions that were listed since the scan began, by their fingerprints."""
        self._before: AbstractSet[int] = frozenset()
        """Those that were listed before it began."""

    @property
    def is_used(self) -> bool:
        return self._selects is not None

    def selects(self, version: FileVersion) -> bool:
        return self._selects is not None and self._selects(version)

    def begin(self) -> None:
        """Note that a scan begins."""
        if self.is_used:
            self._before, self._listed = self._listed.keys(), {}

    def wait(self, version: FileVersion) -> None:
        """Note that the scan has listed a version."""
        self._listed[version.fingerprint] = version

    @property
    def ready(self) -> Sequence[FileVersion]:
        """The versions that need not wait any longer, after the end of a scan."""
        return [version for name, version in self._listed.items() if name in self._before]

    def take(self, versions: Iterable[FileVersion]) -> None:
        """Note that these versions wait no longer."""
        for version in versions:
            del self._listed[version.fingerprint]


NOTHING_LAST: Final = EmittedLast(None)
"""What watchers share that emit no version last."""
