"""What a watcher of files would select now, for people who wonder why nothing happens. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

import anyio

from triggers.base import Finding
from triggers.file_scan.matching import Matcher
from triggers.shared.globs import WILDCARDS

MOST: Final = 10_000
"""The files that are counted at most; the message says when there are more."""
_NAMED: Final = 3
"""The files that the message names at most."""
_ENDINGS: Final = 100
"""The endings of names that are counted at most."""


@dataclass(kw_only=True)
class Survey:
    """Counts the files of a place, and those that a watcher selects. `noun` is what the place calls them, in the plural."""

    place: str
    noun: str
    match: str | None
    regex: str | None
    min_size: int
    total: int = 0
    selected: int = 0
    first: list[str] = field(default_factory=list)
    """The first files, whole names for people."""
    deeper: int = 0
    """The files that the glob would match if it were allowed any folders before it."""
    small: int = 0
    """The files that the pattern matches, and that are not selected because of their size."""
    has_more: bool = False
    _deeper: Callable[[str], bool] = field(init=False)
    _matches: Callable[[str], bool] = field(init=False)
    _endings: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        may_help = self.match is not None and not self.match.startswith("**/")
        matcher = Matcher.of(match=f"**/{self.match}", regex=None) if may_help else None
        self._matches = Matcher.of(match=self.match, regex=self.regex)
        self._deeper = (lambda _key: False) if matcher is None else matcher

    def add(self, key: str, shown: str, *, is_selected: bool) -> None:
        """Count a file: `key` is what the pattern sees, and `shown` its whole name for people."""
        self.total += 1
        self.selected += is_selected
        if self.selected:
            return  # what would match concerns nobody
        if len(self.first) < _NAMED:
            self.first.append(shown)
        self.small += self._matches(key)
        self.deeper += self._deeper(key)
        ending = PurePosixPath(key).suffix
        if ending in self._endings or len(self._endings) < _ENDINGS:
            self._endings[ending] += 1

    @property
    def is_full(self) -> bool:
        return self.total >= MOST

    @property
    def finding(self) -> Finding:
        """An error if there are files and none is selected: nothing would happen."""
        if not self.total:
            return Finding.ok("match", f"there are no {self.noun} {self.place} yet")
        number = f"more than {self.total:,}" if self.has_more else f"{self.total:,}"
        counted = f"{number} {self.noun if self.total > 1 else self.noun.removesuffix('s')}"
        if self.selected:
            which = "" if self.selected == self.total else f", {self.selected:,} of which match {self._pattern}"
            return Finding.ok("match", f"{counted} {self.place}{which}")
        return Finding.error(
            "match", f"{counted}, none matches {self._pattern}; the first: {', '.join(self.first)}", self._remedy
        )

    @property
    def _pattern(self) -> str:
        conditions = [self.match or self.regex, self.min_size and f"min_size: {self.min_size}"]
        return " with ".join(f"`{each}`" for each in conditions if each) or "what a watcher selects"

    @property
    def _remedy(self) -> str:
        if self.small and self.min_size:
            return f"lower `min_size`: {self.small:,} of them match, and are smaller"
        if self.deeper:
            return f'set `match: "**/{self.match}"`, which matches {self.deeper:,} of them: `*` stops at `/`'
        [(ending, number)] = self._endings.most_common(1)
        glob = f"**/*{ending}" if ending and not WILDCARDS.search(ending) else "**"
        key = "match" if self.regex is None else "regex`, by `match"
        return (
            f'correct `{key}`, or the place: `match: "{glob}"` matches {number if ending else self.total:,} of them; a pattern sees '
            "what stands behind the asset's prefix"
        )


UNMATCHED_AFTER: Final = 600.0
"""Seconds after which a watcher that has selected nothing finds out whether its place has files at all."""


@dataclass(kw_only=True)
class Unmatched:
    """Notices that a watcher has selected nothing for a while although its place has files."""

    after: float = UNMATCHED_AFTER
    findings: Sequence[Finding] = ()
    _due: float | None = None
    """When to find out, by the event loop's clock. None: before the first poll, and once something was selected."""

    @property
    def seconds_left(self) -> float:
        """The most seconds to rest, so that it is found out in time."""
        return math.inf if self._due is None else max(0.0, self._due - anyio.current_time())

    async def look(self, survey: Callable[[], Awaitable[Finding | None]], *, has_selected: bool) -> None:
        """Ask `survey` when it is due; call it after each poll."""
        now = anyio.current_time()
        if has_selected:
            self.findings, self._due = (), None
        elif self._due is None:
            self._due = now + self.after
        elif now >= self._due:
            finding = await survey()
            is_one = finding is not None and finding.level in {"warning", "error"}
            # The watcher works, and may be meant for files that are yet to come.
            self.findings = [replace(finding, level="warning")] if finding is not None and is_one else ()
            self._due = now + self.after
