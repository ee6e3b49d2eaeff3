"""What a scan remembers between commits: its state, a small JSON document, and the set of versions already handled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from triggers.base import JsonObject, RowChanges
from triggers.file_scan.versions import FileVersion, Moment, format_moment, parse_moment

Start: TypeAlias = Literal["now", "all"] | Moment
"""Where a watcher begins: with what comes from now on, with everything, or with versions modified at or after a moment."""


@dataclass(frozen=True, kw_only=True)
class ScanState:
    """Where the watcher stands. Between two scans `began`, `next_horizon` and `cursor` are None.

    `next_horizon` is fixed when a scan begins: versions below it are emitted without being recorded, so a resumed scan
    must end with the same one, whatever `lateness` has become meanwhile.
    """

    horizon: Moment | None = None
    """H: versions modified before it are never looked at again."""
    baseline: Moment | Literal["now"] | None = None
    """Versions modified before it are recorded without an event, in the scan under way or the next; `now`: the moment that scan begins."""
    began: Moment | None = None
    """T0: the source's clock on the first page of the scan under way; kept over a crash."""
    next_horizon: Moment | None = None
    """H once the scan under way has ended."""
    cursor: str | None = None
    """The scan under way goes on after this key."""
    up_to: Moment | None = None
    """What was visible when the last whole scan began, and old enough, has been handled."""

    @classmethod
    def starting(cls, start: Start) -> ScanState:
        """For a watcher without a position, and for a rewind (which also empties the handled set)."""
        match start:
            case "now":
                return cls(baseline="now")
            case "all":
                return cls()
            case moment:
                return cls(horizon=moment)

    @property
    def is_baseline(self) -> bool:
        return self.baseline is not None

    def accounts_for(self, version: FileVersion, handled: Collection[int]) -> bool:
        """Whether a watcher that goes on from here, with these fingerprints `handled`, will never tell this version."""
        if version.fingerprint in handled:
            return True
        passed = self.next_horizon if self.cursor is not None and version.key <= self.cursor else None
        return any(isinstance(old, int) and version.modified < old for old in (self.horizon, self.baseline, passed))

    def watermark(self, seen: int) -> JsonObject:
        """What a person judges by; `seen` versions are remembered."""
        scan = None
        if self.began is not None:
            scan = {"began": format_moment(self.began), "after": self.cursor, "baseline": self.is_baseline}
        return {"up_to": text_of(self.up_to), "horizon": text_of(self.horizon), "seen": seen, "scan": scan}

    def to_json(self) -> JsonObject:
        return {name: format_moment(value) if isinstance(value, int) else value for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, document: JsonObject) -> ScanState:
        values: Mapping[str, Any] = document
        as_written = {name for name, value in values.items() if name == "cursor" or value in (None, "now")}
        values = {name: value if name in as_written else parse_moment(value) for name, value in values.items()}
        return cls(**values)


def text_of(moment: Moment | None) -> str | None:
    return None if moment is None else format_moment(moment)


_NONE: Final[frozenset[int]] = frozenset()


class HandledVersions:
    """The fingerprints of versions already handled, with the moment each version was modified.

    Differences to the set that was last committed add up until `take_changes`.
    """

    __slots__ = ("_below", "_deleted", "_inserted", "members")

    def __init__(self, rows: Mapping[int, Moment]) -> None:
        self.members = dict(rows)
        self._below: Moment | None = None
        self._deleted = _NONE
        self._inserted: dict[int, Moment] = {}

    def add(self, member: int, modified: Moment) -> None:
        self.members[member] = modified
        self._inserted[member] = modified

    def forget_below(self, horizon: Moment) -> None:
        remaining = {member: modified for member, modified in self.members.items() if modified >= horizon}
        if len(remaining) < len(self.members):
            self.members = remaining
            self._inserted = {member: modified for member, modified in self._inserted.items() if modified >= horizon}
            self._below = horizon  # horizons never go back: the last one includes those before it

    def forget(self, members: Collection[int]) -> None:
        for member in members:
            del self.members[member]
            self._inserted.pop(member, None)
        if members:
            self._deleted |= {*members}

    @property
    def has_forgotten(self) -> bool:
        """Whether single members are to be deleted; what a horizon passed is gone without that."""
        return bool(self._deleted)

    def take_changes(self) -> RowChanges:
        """All differences since the last call; the caller owes their commit."""
        # A member that was deleted and added again is in both: `RowChanges` inserts last.
        changes = RowChanges(delete_below=self._below, delete=self._deleted, insert=self._inserted)
        self._below, self._deleted, self._inserted = None, _NONE, {}
        return changes
