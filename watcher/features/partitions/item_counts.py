"""How many different files and rows the queued events of a partition name, read again only when the partition changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from store.features.partitions import groups as partition_groups
from store.partition_keys import Completeness
from triggers.shared.manifests import end_matcher
from watcher.features.partitions.compared_items import ComparedItems, DistinctItems, NamedFiles, files_of
from watcher.features.partitions.deliveries import ConditionSteps, condition_steps
from watcher.features.partitions.groups import PartitionGroup
from watcher.scheduling.planning.plans import Waits

MOST_COUNTED: Final = 10_000
"""The most groups whose counts are remembered."""
_Contents: TypeAlias = tuple[object, tuple[tuple[AbstractSet[str], str | None, int, int, int], ...]]
"""What a count is made of: what counts, and which events there are."""


@dataclass(frozen=True, kw_only=True)
class ItemCount:
    """How many of the items that are needed have come, and what lacks, for people; '': the number says it all.

    `completed_by`, of a partition that may be delivered again: the event at which all of a delivery had come. What came later is not
    counted. With `depends_on_earlier` files count that came with earlier deliveries, so that it does not hold for ever.
    """

    number: int = 0
    lacks: str = ""
    completed_by: int | None = None
    depends_on_earlier: bool = False


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
        closed: AbstractSet[str | None],
    ) -> Mapping[str | None, ItemCount]:
        """Return the counts of a job's groups by their keys. Events that the job does not wait for do not count.

        `closed` groups have had a run: what is queued of them is of a later delivery.
        """
        counts_what = replace(complete, items=None)
        contents = {
            group.key: _contents(
                group, waits, (complete, waits, group.key in closed) if complete.again else counts_what
            )
            for group in groups
        }
        known = {key: self._counted.get((dag_id, key), _NOTHING) for key in contents}
        changed = [group for group in groups if known[group.key][0] != contents[group.key]]
        counted = await _count(connection, dag_id, changed, waits, complete, closed) if changed else {}
        if len(self._counted) + len(counted) > MOST_COUNTED:
            self._counted.clear()
        self._counted |= {
            (dag_id, key): (contents[key], count) for key, count in counted.items() if not count.depends_on_earlier
        }
        return {key: count for key, (_, count) in known.items()} | counted


@dataclass(frozen=True, kw_only=True)
class _Named:
    """An event that counts, with what it names."""

    asset: str
    event_id: int
    extra: str


async def _count(
    connection: AsyncConnection,
    dag_id: str,
    groups: Sequence[PartitionGroup],
    waits: Waits,
    complete: Completeness,
    closed: AbstractSet[str | None],
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
    named: dict[str | None, list[_Named]] = {group.key: [] for group in groups}
    for event in mine:
        key, asset = key_of[event.references, event.key]
        named[key].append(_Named(asset=asset, event_id=event.event_id, extra=extras[event.event_id]))
    counted: dict[str | None, ItemCount] = {}
    for group in groups:
        is_closed = group.key in closed
        steps = condition_steps(group.rows, waits, complete, is_redelivery=is_closed) if complete.again else None
        counted[group.key] = _compared(named[group.key], complete, steps)
        if complete.again and complete.manifest and is_closed and counted[group.key].completed_by is None:
            earlier = await _earlier_files(connection, dag_id, group.key)
            again = _compared(named[group.key], complete, steps, earlier)
            counted[group.key] = replace(again, depends_on_earlier=bool(earlier))
    return counted


def _compared(
    events: Sequence[_Named], complete: Completeness, steps: ConditionSteps | None, earlier: Collection[str] = ()
) -> ItemCount:
    """Compare events with what is needed: all of them, or with `steps` up to the one that completes a delivery."""
    items = comparing(complete)()
    items.know(earlier)
    for event in events:
        items.add(event.asset, event.event_id, event.extra)
        if steps is not None and steps.holds_at(event.event_id) and items.has(complete.needed_items):
            return ItemCount(number=complete.needed_items, completed_by=event.event_id)
    return ItemCount(number=items.count, lacks=items.lacks)


async def _earlier_files(connection: AsyncConnection, dag_id: str, key: str | None) -> AbstractSet[str]:
    """Return the addresses of the files that came with earlier deliveries of a partition and are still the newest of their names."""
    is_there: dict[str, bool] = {}
    for event in await partition_groups.earlier_events(connection, dag_id, key):
        is_there |= dict.fromkeys(files_of(event.extra), event.is_consumed)
    return {address for address, is_newest in is_there.items() if is_newest}


def _contents(group: PartitionGroup, waits: Waits, counts_what: object) -> _Contents:
    mine = (row for row in group.rows if waits.wait_for(row.references))
    rows = tuple((row.references, row.key, row.first_event, row.last_event, row.events) for row in mine)
    return counts_what, rows


def comparing(complete: Completeness) -> Callable[[], ComparedItems]:
    """Return what makes an empty comparison for a partition."""
    if complete.manifest is not None:
        return partial(NamedFiles, end_matcher([complete.manifest]))
    return partial(DistinctItems, None if complete.marker is None else end_matcher([complete.marker]))
