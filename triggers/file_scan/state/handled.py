"""The versions that a watcher has handled: those that its source lists, and those absent since some time, in one set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from triggers.base import RowChanges
from triggers.cleaning import RemovalStage
from triggers.file_scan.versions import SECOND, FileVersion, Moment

_ABSENT: Final = 1 << 62
"""The lowest value of an absent version: later than every moment, so that `RowChanges.delete_below` keeps it."""
MOST_CHANGED: Final = 10_000
"""Changes that wait for the end of a scan, at most."""
_SECONDS_AT: Final = 30
_LOW_BITS: Final = (1 << _SECONDS_AT) - 1


def absent_since(moment: Moment, modified: Moment) -> int:
    """The value of an absent version: the second since when it is absent, and what tells its time of modification from others.

    Two times of modification look alike with a probability of 1e-9.
    """
    return _ABSENT | (max(0, moment // SECOND) & 0xFFFFFFFF) << _SECONDS_AT | modified & _LOW_BITS


def is_absent(value: int) -> bool:
    """Whether the value of a version says that it is absent. Otherwise it is the moment at which it was modified."""
    return value >= _ABSENT


def is_unchanged(value: int, modified: Moment) -> bool:
    """Whether a version that was recorded with this value would be no news if it is listed as modified at this moment."""
    return not is_absent(value) or (value ^ modified) & _LOW_BITS == 0


def _second(value: int) -> Moment:
    return ((value - _ABSENT) >> _SECONDS_AT) * SECOND


@dataclass(kw_only=True, slots=True)
class Removals:
    """The versions that the host removes from the source on purpose: that a scan lacks one means nothing."""

    leaving: set[int] = field(default_factory=set)
    """These are being removed, and may be gone."""
    removed: set[int] = field(default_factory=set)
    """These were removed: a whole scan that lacks one of them forgets it."""

    def note(self, names: Collection[int], stage: RemovalStage) -> None:
        self.leaving.difference_update(names)
        if stage == "done":
            self.removed.update(names)
        elif stage == "begun":
            self.leaving.update(names)

    def __len__(self) -> int:
        return len(self.leaving) + len(self.removed)


class HandledVersions:
    """The fingerprints of the handled versions, each with the moment at which its version was modified.

    A version that a complete scan lacks is absent. It is kept for `forget_after` microseconds: if it comes back as it was, it
    is no news. Differences to the set that was last committed add up until `take_changes`.
    """

    __slots__ = (
        "_below",
        "_deleted",
        "_expires",
        "_forget_after",
        "_had_any",
        "_inserted",
        "absent",
        "added",
        "has_quiet_changes",
        "members",
        "removals",
        "returned",
    )

    def __init__(self, rows: Mapping[int, int], *, forget_after: int = 0, removals: Removals | None = None) -> None:
        self.members: dict[int, Moment] = dict(rows)
        """The versions that are there, as far as the watcher knows."""
        self.absent: dict[int, int] = {member: value for member, value in rows.items() if is_absent(value)}
        for member in self.absent:
            del self.members[member]
        self.removals = removals
        """None: nothing is removed on purpose."""
        self._forget_after = forget_after
        self._had_any = len(rows) > 0
        """Whether there were any when the scan began. Those recorded since then have the names of today."""
        self._expires = self._next_expiry()
        self._below: Moment | None = None
        self._deleted: set[int] = set()
        self._inserted: dict[int, int] = {}
        self.added: list[int] | None = None
        """What `add` was called with, for an index that is kept of the fingerprints; None: nobody keeps one."""
        self.has_quiet_changes = False
        """Whether versions became absent, came back, have another moment or are to be deleted. Members below a horizon are not counted: they are
        deleted together."""
        self.returned = 0
        """The versions that are stored as absent and came back."""

    def begin(self) -> None:
        """Note that a scan begins."""
        self._had_any = len(self) > 0

    def __len__(self) -> int:
        return len(self.members) + len(self.absent)

    def __contains__(self, member: int) -> bool:
        return member in self.members or member in self.absent

    def add(self, member: int, modified: Moment) -> None:
        self.absent.pop(member, None)
        self.members[member] = modified
        self._inserted[member] = modified
        if self.added is not None:
            self.added.append(member)

    def knows(self, member: int, modified: Moment, clock: Moment) -> bool:
        """Whether a version is no news at this time of the source's clock: it is there, or it has come back as it was."""
        if member in self.members:
            return True
        value = self.absent.get(member)
        return value is not None and is_unchanged(value, modified) and not self._is_expired(value, clock)

    def count_absent(self, since: Moment) -> int:
        """The number of versions that are absent since this moment or a later one, to the second."""
        low = absent_since(since, 0)
        return sum(value >= low for value in self.absent.values())

    def recognizes(self, name: int, version: FileVersion, clock: Moment, *, records: bool) -> bool:
        """Whether a version that is not there by its fingerprint has come back, or is there under an alias, at this time of the source's clock.

        `records`: a later scan could meet it again, so that it is recorded by its fingerprint.
        """
        if name in self.absent and self.knows(name, version.modified, clock):
            if records:
                self.take_back(name, version.modified)
            return True
        if not self._had_any:
            return False
        alias = next((each for each in version.aliases if self.knows(each, version.modified, clock)), None)
        if alias is not None and records:
            self.rename(alias, name, version.modified)
        return alias is not None

    def rename(self, member: int, to: int, modified: Moment) -> None:
        """Record a version that is there under another name from now on."""
        self._note_return(member)
        self.members.pop(member, None)
        self.absent.pop(member, None)
        self._inserted.pop(member, None)
        self._deleted.add(member)
        self.add(to, modified)
        self.has_quiet_changes = True

    def touch(self, member: int, modified: Moment) -> None:
        """Record the moment of a version if it is there: what changes a file's owner or mode changes its moment, too."""
        if self.members.get(member, modified) != modified:
            self.members[member] = self._inserted[member] = modified
            self.has_quiet_changes = True

    @property
    def is_much_changed(self) -> bool:
        """Whether so much is to be written that it should not wait for the end of a scan."""
        return len(self._inserted) >= MOST_CHANGED

    def take_back(self, member: int, modified: Moment) -> None:
        """Record that an absent version is there again."""
        self._note_return(member)
        self.add(member, modified)
        self.has_quiet_changes = True

    def miss(self, members: Iterable[int], clock: Moment) -> None:
        """Record that a complete scan, which began at this time of the source's clock, lacked these members."""
        for member in members:
            value = absent_since(clock, self.members.pop(member))
            self.absent[member] = self._inserted[member] = value
            self._expires = min(self._expires, _second(value) + self._forget_after)
            self.has_quiet_changes = True

    def drop(self, members: Collection[int]) -> None:
        """Forget members that were removed on purpose. Whoever removed them has deleted their rows."""
        for member in members:
            del self.members[member]
            self._inserted.pop(member, None)
        if self.removals is not None:
            self.removals.removed &= self.members.keys()

    def forget_expired(self, clock: Moment) -> None:
        """Forget the versions that are absent for too long by now."""
        if clock < self._expires:
            return
        expired = {member for member, value in self.absent.items() if self._is_expired(value, clock)}
        for member in expired:
            del self.absent[member]
            self._inserted.pop(member, None)
        if expired:
            self._deleted |= expired
            self.has_quiet_changes = True
        self._expires = self._next_expiry()

    def forget_below(self, horizon: Moment) -> None:
        """Forget the members modified before a horizon; those that are absent expire by themselves."""
        remaining = {member: modified for member, modified in self.members.items() if modified >= horizon}
        if len(remaining) < len(self.members):
            self.members = remaining
            inserted = {member: value for member, value in self._inserted.items() if value >= horizon}
            self._deleted |= self._inserted.keys() - inserted.keys()  # stored as absent, perhaps
            self._inserted = inserted
            self._below = horizon  # horizons never go back: the last one includes those before it

    def take_changes(self) -> RowChanges:
        """Return all differences since the last call; the caller must commit them."""
        # A member that was deleted and added again is in both: `RowChanges` inserts last.
        changes = RowChanges(delete_below=self._below, delete=self._deleted, insert=self._inserted)
        self._below, self._deleted, self._inserted, self.has_quiet_changes = None, set(), {}, False
        self.returned = 0
        return changes

    def _note_return(self, member: int) -> None:
        self.returned += member in self.absent and member not in self._inserted

    def _is_expired(self, value: int, clock: Moment) -> bool:
        return clock - _second(value) >= self._forget_after

    def _next_expiry(self) -> Moment:
        """The time of the source's clock at which the first absent version is forgotten; without one, never."""
        return _second(min(self.absent.values())) + self._forget_after if self.absent else _ABSENT


def unknown(
    handled: HandledVersions, versions: Iterable[FileVersion], *, since: Moment | None
) -> tuple[Sequence[tuple[int, FileVersion]], int]:
    """Return the versions, modified at `since` or later, that are not there by their fingerprints, and how many are.

    The moments of those that are there are recorded.
    """
    members, others, met = handled.members, list[tuple[int, FileVersion]](), 0
    for version in versions:
        modified = version.modified
        if since is not None and modified < since:
            continue
        name = version.fingerprint
        if name in members:  # most are, most of the time
            met += 1
            if members[name] != modified:
                handled.touch(name, modified)
        else:
            others.append((name, version))
    return others, met


def accounts_for(rows: Mapping[int, int], version: FileVersion) -> bool:
    """Whether a watcher with these stored rows would not report a version, as far as they tell."""
    if _holds(rows, version.fingerprint, version.modified):
        return True
    return any(_holds(rows, alias, version.modified) for alias in version.aliases)


def _holds(rows: Mapping[int, int], name: int, modified: Moment) -> bool:
    value = rows.get(name)
    return value is not None and is_unchanged(value, modified)
