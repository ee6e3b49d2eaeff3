"""The set of versions already handled, and how it differs from the one last committed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, KeysView, Mapping

from triggers.base import RowChanges
from triggers.files.moments import Moment


class Handled:
    """Fingerprints with the moment their version was modified. Differences add up until `take_changes`."""

    def __init__(self, rows: Mapping[int, Moment]) -> None:
        self._members = dict(rows)
        self._below: Moment | None = None
        self._deleted: set[int] = set()
        self._inserted: dict[int, Moment] = {}

    def __contains__(self, member: int) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> KeysView[int]:
        """For many look-ups in a row."""
        return self._members.keys()

    def add(self, member: int, modified: Moment) -> None:
        self._members[member] = modified
        self._inserted[member] = modified

    def forget_below(self, horizon: Moment) -> None:
        kept = {member: modified for member, modified in self._members.items() if modified >= horizon}
        if len(kept) < len(self._members):
            self._members = kept
            self._inserted = {member: modified for member, modified in self._inserted.items() if modified >= horizon}
            self._below = horizon  # horizons never go back: the last one includes those before it

    def forget(self, members: Collection[int]) -> None:
        for member in members:
            del self._members[member]
            self._inserted.pop(member, None)
        self._deleted.update(members)

    def take_changes(self) -> RowChanges:
        """All differences since the last call; the caller owes their commit."""
        # A member that was deleted and added again is in both: `RowChanges` inserts last.
        changes = RowChanges(delete_below=self._below, delete=self._deleted, insert=self._inserted)
        self._below, self._deleted, self._inserted = None, set(), {}
        return changes
