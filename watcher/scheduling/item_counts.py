"""How many different files and rows the queued events of a partition name, read again only when the partition changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from store.partition_keys import Completeness
from store.runs import partition_groups
from triggers.shared.manifests import end_matcher
from watcher.scheduling.compared_items import ComparedItems, DistinctItems, NamedFiles
from watcher.scheduling.partitions import PartitionGroup
from watcher.scheduling.planning.plans import Waits

MOST_COUNTED: Final = 10_000
"""The most groups whose counts are remembered."""
_Contents: TypeAlias = tuple[Completeness | None, tuple[tuple[AbstractSet[str], str | None, int, int, int], ...]]
"""What a count is made of: what counts, and which events there are."""


@dataclass(frozen=True, kw_only=True)
class ItemCount:
    """How many of the items that are needed have come, and what lacks, for people; '': the number says it all."""

    number: int = 0
    lacks: str = ""


_NOTHING: Final[tuple[_Contents, ItemCount]] = ((None, ()), ItemCount())


class ItemCounts:
    """Remembers counts. Events never change, so a count holds for as long as the same events are queued."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str | None], tuple[_Contents, ItemCount]] = {}

    async def of(
        self,
        connection: AsyncConnection,
        dag_id: str,
        groups: Sequence[PartitionGroup],
        waits: Waits,
        complete: Completeness,
    ) -> Mapping[str | None, ItemCount]:
        """Return the counts of a job's groups by their keys. Events that the job does not wait for do not count."""
        counts_what = replace(complete, items=None)
        contents = {group.key: _contents(group, waits, counts_what) for group in groups}
        known = {key: self._counted.get((dag_id, key), _NOTHING) for key in contents}
        changed = [group for group in groups if known[group.key][0] != contents[group.key]]
        counted = await _count(connection, dag_id, changed, waits, complete) if changed else {}
        if len(self._counted) + len(counted) > MOST_COUNTED:
            self._counted.clear()
        self._counted |= {(dag_id, key): (contents[key], count) for key, count in counted.items()}
        return {key: count for key, (_, count) in known.items()} | counted


async def _count(
    connection: AsyncConnection, dag_id: str, groups: Sequence[PartitionGroup], waits: Waits, complete: Completeness
) -> dict[str | None, ItemCount]:
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
    compare = comparing(complete)
    compared = {group.key: compare() for group in groups}
    for event in mine:
        key, asset = key_of[event.references, event.key]
        compared[key].add(asset, event.event_id, extras[event.event_id])
    return {key: ItemCount(number=items.count, lacks=items.lacks) for key, items in compared.items()}


def _contents(group: PartitionGroup, waits: Waits, complete: Completeness) -> _Contents:
    mine = (row for row in group.rows if waits.wait_for(row.references))
    return complete, tuple((row.references, row.key, row.first_event, row.last_event, row.events) for row in mine)


def comparing(complete: Completeness) -> Callable[[], ComparedItems]:
    """Return what makes an empty comparison for a partition."""
    if complete.manifest is not None:
        return partial(NamedFiles, end_matcher([complete.manifest]))
    return partial(DistinctItems, None if complete.marker is None else end_matcher([complete.marker]))
