"""How many different files and rows the queued events of a partition name, read again only when the partition changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from store.runs import partition_groups
from triggers.file_scan.matching import glob_expression
from watcher.scheduling.completeness import DistinctItems
from watcher.scheduling.partitions import PartitionGroup
from watcher.scheduling.planning import Waits

MOST_COUNTED: Final = 10_000
"""The most groups whose counts are remembered."""
_Contents: TypeAlias = tuple[str | None, tuple[tuple[AbstractSet[str], str | None, int, int, int], ...]]
"""What a count is made of: the marker that is counted, and which events there are."""
_NOTHING: Final[_Contents] = (None, ())


class ItemCounts:
    """Remembers counts. Events never change, so a count holds for as long as the same events are queued."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str | None], tuple[_Contents, int]] = {}

    async def of(
        self,
        connection: AsyncConnection,
        dag_id: str,
        groups: Sequence[PartitionGroup],
        waits: Waits,
        marker: str | None,
    ) -> Mapping[str | None, int]:
        """Return the counts of a job's groups by their keys. Events that the job does not wait for do not count.

        With a `marker`, a glob, only files that match it do.
        """
        contents = {group.key: _contents(group, waits, marker) for group in groups}
        known = {key: self._counted.get((dag_id, key), (_NOTHING, 0)) for key in contents}
        changed = [group for group in groups if known[group.key][0] != contents[group.key]]
        counted = await _count(connection, dag_id, changed, waits, marker) if changed else {}
        if len(self._counted) + len(counted) > MOST_COUNTED:
            self._counted.clear()
        self._counted |= {(dag_id, key): (contents[key], count) for key, count in counted.items()}
        return {key: count for key, (_, count) in known.items()} | counted


async def _count(
    connection: AsyncConnection, dag_id: str, groups: Sequence[PartitionGroup], waits: Waits, marker: str | None
) -> dict[str | None, int]:
    key_of = {
        (row.references, row.key): (group.key, row.asset)
        for group in groups
        for row in group.rows
        if waits.wait_for(row.references)
    }
    last = max(group.last_event for group in groups)
    events = await partition_groups.events_of(connection, dag_id, {key for _, key in key_of}, to=last)
    mine = [event for event in events if (event.references, event.key) in key_of]
    extras = await partition_groups.extras_of(connection, [event.event_id for event in mine])
    is_marker = None if marker is None else _matcher(marker)
    counted = {group.key: DistinctItems(is_marker) for group in groups}
    for event in mine:
        key, asset = key_of[event.references, event.key]
        counted[key].add(asset, event.event_id, extras[event.event_id])
    return {key: items.count for key, items in counted.items()}


def _contents(group: PartitionGroup, waits: Waits, marker: str | None) -> _Contents:
    mine = (row for row in group.rows if waits.wait_for(row.references))
    return marker, tuple((row.references, row.key, row.first_event, row.last_event, row.events) for row in mine)


def _matcher(glob: str) -> Callable[[str], bool]:
    """Return whether a glob matches the end of a name, from any folder on."""
    expression = glob_expression(f"**/{glob.removeprefix('/')}")
    return lambda name: expression.search(name) is not None
