"""Items of runs that are not as their events say: removed, moved, or superseded. Features know which; a try keeps what was decided.

They are asked in the transaction that starts a try, and in those that queue runs again. The driver gets the events of its try without
the items that are left out, and with the new places of those that were moved.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol, Self

from sqlalchemy import Select, and_, bindparam, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.schema import asset_event, asset_interest, run, run_asset_event, task_instance, task_try
from store.errors import Conflict
from store.fates import LEFT_OUT, Fate
from store.keys import TryKey
from store.runs.runs import OVER

_e, _i, _r, _t, _y = asset_event.c, asset_interest.c, run_asset_event.c, task_instance.c, task_try.c
MOST_NAMED: Final = 3
"""The most items that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class ChangedItem:
    """An item of a run, by its event and its place in the event's `files`, from 0. `fate` is `cleaned`, `superseded` or `moved`."""

    event_id: int
    number: int
    fate: Fate
    place: Mapping[str, Any] | None = None
    """The members of a moved file's description that differ at its new place, and `moved_from`. None: it was not moved."""
    is_in_hand: bool = False
    """It is being removed, and may be at either place: a try starts once that is over."""


class ItemChanges(Protocol):
    """What a feature knows of changed items. It is asked about runs and events of assets in which the feature is interested."""

    async def of_runs(
        self, connection: AsyncConnection, run_ids: Collection[int], /, *, lock: bool
    ) -> Mapping[int, Sequence[ChangedItem]]:
        """Return the changed items of these runs, by `run.id`, without runs that have none.

        With `lock` nothing that it answers from changes before the transaction ends, unless the run is queued or running by then.
        """
        ...

    async def count(self, connection: AsyncConnection, event_ids: Select[Any], /) -> Mapping[Fate, int]:
        """Count the changed items of the events whose ids are selected, by their fates."""
        ...


@dataclass(frozen=True)
class ChangedItems:
    """The changed items of one run."""

    items: Sequence[ChangedItem] = ()

    @cached_property
    def counts(self) -> Mapping[Fate, int]:
        """How many items have each fate, without fates that none has."""
        return Counter(item.fate for item in self.items)

    @property
    def left_out(self) -> int:
        return sum(self.counts.get(fate, 0) for fate in LEFT_OUT)

    def left_out_since(self, before: ChangedItems) -> ChangedItems:
        """Return the items that a try does not get, without those that one before did not get either."""
        without = {(item.event_id, item.number) for item in before.items if item.fate in LEFT_OUT}
        left_out = (item for item in self.items if item.fate in LEFT_OUT)
        return ChangedItems([item for item in left_out if (item.event_id, item.number) not in without])

    @property
    def are_in_hand(self) -> bool:
        """Whether some are being removed at the moment."""
        return any(item.is_in_hand for item in self.items)

    @property
    def settled(self) -> ChangedItems:
        """The items without those that are being removed."""
        return ChangedItems([item for item in self.items if not item.is_in_hand]) if self.are_in_hand else self

    @classmethod
    def merged(cls, items: Iterable[ChangedItem]) -> Self:
        """Return the items, each once: what leaves an item out comes before what has moved it, else the first feature decides."""
        known: dict[tuple[int, int], ChangedItem] = {}
        for item in items:
            before = known.get((item.event_id, item.number))
            if before is None or (before.fate not in LEFT_OUT and item.fate in LEFT_OUT):
                known[item.event_id, item.number] = item
        return cls([known[key] for key in sorted(known)])

    def counts_to_json(self) -> str | None:
        """Return the counts as the text that a run keeps; None: no item was changed."""
        return json.dumps(self.counts) if self.counts else None

    def to_json(self) -> str | None:
        """Return the text that a try keeps; None: no item was changed."""
        if not self.items:
            return None
        return json.dumps(
            [
                {"event": item.event_id, "number": item.number, "fate": item.fate.value}
                | ({} if item.place is None else {"place": item.place})
                for item in self.items
            ]
        )

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        return cls(
            [
                ChangedItem(
                    event_id=item["event"], number=item["number"], fate=Fate(item["fate"]), place=item.get("place")
                )
                for item in json.loads(text or "[]")
            ]
        )

    @classmethod
    def agreed(cls, text: str | None) -> Self:
        """Return the items without which a run was cleared, from the text that the run keeps; none if that has only counts."""
        return cls.from_json(text) if text is not None and text.startswith("[") else cls()

    @cached_property
    def by_event(self) -> Mapping[int, Mapping[int, ChangedItem]]:
        """The items by event and number."""
        by_event: defaultdict[int, dict[int, ChangedItem]] = defaultdict(dict)
        for item in self.items:
            by_event[item.event_id][item.number] = item
        return by_event

    def applied(self, event_id: int, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what an event says, as the driver of the try gets it."""
        changed = self.by_event.get(event_id)
        if not changed:
            return extra
        files = [
            file if (item := changed.get(number)) is None or item.place is None else {**file, **item.place}
            for number, file in enumerate(extra["files"])
            if number not in changed or changed[number].fate not in LEFT_OUT
        ]
        return {**extra, "files": files}

    def left_out_of(self, event_id: int, extra: Mapping[str, Any]) -> Iterator[tuple[Fate, Mapping[str, Any]]]:
        """Yield the files of an event that the try does not get, as the event describes them, each with its fate."""
        for number, item in sorted(self.by_event.get(event_id, {}).items()):
            if item.fate in LEFT_OUT:
                yield item.fate, extra["files"][number]


NONE_CHANGED: Final = ChangedItems()


@dataclass(frozen=True, kw_only=True)
class ItemHooks:
    """What the features of a process know of changed items, by their names, in order."""

    features: Mapping[str, ItemChanges] = field(default_factory=dict)

    async def of_runs(
        self, connection: AsyncConnection, run_ids: Collection[int], *, lock: bool = False
    ) -> Mapping[int, ChangedItems]:
        """Return the changed items of runs, by `run.id`, without runs that have none. `lock` is as `ItemChanges` has it."""
        if not self.features:
            return {}
        items: defaultdict[int, list[ChangedItem]] = defaultdict(list)
        for some in chunks(sorted(run_ids)):
            given = {"b_features": [*self.features], "b_runs": [*some]}
            interested = {*(await connection.execute(_INTERESTED, given)).scalars()}
            for name in (each for each in self.features if each in interested):
                for run_id, changed in (await self.features[name].of_runs(connection, some, lock=lock)).items():
                    items[run_id] += changed
        return {run_id: ChangedItems.merged(changed) for run_id, changed in items.items()}

    async def of_run(self, connection: AsyncConnection, run_id: int, *, lock: bool = False) -> ChangedItems:
        """Return the changed items of one run."""
        return (await self.of_runs(connection, [run_id], lock=lock)).get(run_id, NONE_CHANGED)

    async def are_interested(self, connection: AsyncConnection) -> bool:
        """Whether any of the features is interested in any asset."""
        return bool(await self._interested(connection))

    async def _interested(self, connection: AsyncConnection) -> Collection[str]:
        if not self.features:
            return ()
        return {*(await connection.execute(_INTERESTED_AT_ALL, {"b_features": [*self.features]})).scalars()}

    async def count(self, connection: AsyncConnection, event_ids: Select[Any]) -> Mapping[Fate, int]:
        """Count the changed items of the events whose ids are selected, by their fates."""
        interested = await self._interested(connection)
        counts = Counter[Fate]()
        for name in (each for each in self.features if each in interested):
            counts.update(await self.features[name].count(connection, event_ids))
        return counts


NO_ITEM_HOOKS: Final = ItemHooks()
"""The hooks of a program without features."""

_HAS_RUN: Final = (
    select(_e.id)
    .join_from(run, run_asset_event, and_(_r.dag_id == run.c.dag_id, _r.run_id == run.c.run_id))
    .join(asset_event, _e.id == _r.event_id)
    .where(run.c.id.in_(bindparam("b_runs", expanding=True)), _e.asset_id == _i.asset_id)
    .correlate(asset_interest)
)
_INTERESTED_AT_ALL: Final = select(_i.feature).distinct().where(_i.feature.in_(bindparam("b_features", expanding=True)))
_INTERESTED: Final = _INTERESTED_AT_ALL.where(_HAS_RUN.exists())


async def of_try(connection: AsyncConnection, key: TryKey) -> ChangedItems:
    """Return what was decided of the items of a try when it started."""
    this = select(_y.changed_items).where(_y.task_instance_id == key.task_instance_id, _y.try_number == key.try_number)
    return ChangedItems.from_json(await connection.scalar(this))


async def of_last_tries(connection: AsyncConnection, run_ids: Collection[int]) -> Mapping[int, ChangedItems]:
    """Return what was decided of the items of runs when their last tries started, by `run.id`, without runs that had none."""
    query = select(run.c.id, _y.changed_items)
    query = query.join_from(run, task_instance, and_(_t.dag_id == run.c.dag_id, _t.run_id == run.c.run_id))
    query = query.join(task_try, and_(_y.task_instance_id == _t.id, _y.try_number == _t.try_number))
    query = query.where(_y.changed_items.is_not(None))
    items: dict[int, ChangedItems] = {}
    for some in chunks(sorted(run_ids)):
        for row in await connection.execute(query.where(run.c.id.in_(some))):
            items[row.id] = ChangedItems.from_json(row.changed_items)
    return items


async def have_succeeded(connection: AsyncConnection, run_ids: Collection[int]) -> frozenset[int]:
    """Return which of these runs have a try that succeeded, whatever has become of the run since.

    A job that does not use the SDK has succeeded if it exited with 0 by itself (`watcher.scheduling.tries.outcomes`).
    """
    by_itself = and_(_y.finish_state.is_(None), _y.nonce.is_(None), _y.exit_code == 0)
    by_itself = and_(by_itself, _y.message.is_(None), _y.cancelled_at.is_(None))
    query = select(run.c.id).distinct()
    query = query.join_from(run, task_instance, and_(_t.dag_id == run.c.dag_id, _t.run_id == run.c.run_id))
    query = query.join(task_try, _y.task_instance_id == _t.id)
    query = query.where(or_(_y.finish_state == "success", by_itself))
    succeeded: set[int] = set()
    for some in chunks(sorted(run_ids)):
        succeeded.update((await connection.execute(query.where(run.c.id.in_(some)))).scalars())
    return frozenset(succeeded)


async def admitted_without(
    connection: AsyncConnection, run_ids: Collection[int]
) -> Mapping[int, Collection[tuple[int, int]]]:
    """Return the runs among these that run again after a success, by `run.id`, with the items that their tries may go without.

    These are what the last try did not get, and what a person agreed to when the run was cleared. Each is an event and a number.
    """
    query = select(run.c.id, run.c.changed_items).where(run.c.state.not_in(OVER))
    agreed: dict[int, str | None] = {}
    for some in chunks(sorted(await have_succeeded(connection, run_ids))):
        agreed |= {row.id: row.changed_items for row in await connection.execute(query.where(run.c.id.in_(some)))}
    last = await of_last_tries(connection, agreed.keys())
    return {
        run_id: {
            (item.event_id, item.number)
            for item in (*last.get(run_id, NONE_CHANGED).items, *ChangedItems.agreed(text).items)
            if item.fate in LEFT_OUT
        }
        for run_id, text in agreed.items()
    }


async def nothing_left(connection: AsyncConnection, run_id: int, changed: ChangedItems) -> bool:
    """Whether a run with changed items has only events of files, of which its next try would get none, and no marker."""
    if not changed.left_out:
        return False
    for row in await connection.execute(_EVENTS_OF_RUN, {"b_run": run_id}):
        extra = json.loads(row.extra)
        if extra.get("last") is True or not extra.get("files") or changed.applied(row.id, extra)["files"]:
            return False
    return True


_EVENTS_OF_RUN: Final = (
    select(_e.id, _e.extra)
    .join_from(run, run_asset_event, and_(_r.dag_id == run.c.dag_id, _r.run_id == run.c.run_id))
    .join(asset_event, _e.id == _r.event_id)
    .where(run.c.id == bindparam("b_run"))
)


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """What runs would lack if they ran again.

    `refused` are those that must not, by `run.id`, each with its items: they have succeeded, and another try would replace what
    they wrote by less. `agreed` are the items without which the others may run that have succeeded. `counts` are the items that any
    of the runs would lack, by their fates.
    """

    refused: Mapping[int, ChangedItems] = field(default_factory=dict)
    agreed: Mapping[int, ChangedItems] = field(default_factory=dict)
    counts: Mapping[Fate, int] = field(default_factory=dict)


async def lacking(
    connection: AsyncConnection, hooks: ItemHooks, run_ids: Collection[int], include: Collection[Fate], *, lock: bool
) -> Lacking:
    """Return what these runs would lack. Items whose fate is in `include` are no reason to refuse a run.

    What the last try of a run that has succeeded did not get either is nothing that its part would lose.
    """
    of_runs = await hooks.of_runs(connection, run_ids, lock=lock)
    has_left_out = [run_id for run_id, changed in of_runs.items() if changed.left_out]
    again = await have_succeeded(connection, has_left_out) if has_left_out else frozenset[int]()
    written_without = await of_last_tries(connection, again)
    left_out = {
        run_id: of_runs[run_id].left_out_since(written_without.get(run_id, NONE_CHANGED)) for run_id in has_left_out
    }
    refused = {
        run_id: ChangedItems(items)
        for run_id, changed in left_out.items()
        if run_id in again and (items := [item for item in changed.items if item.fate not in include])
    }
    counts = Counter[Fate]()
    for changed in left_out.values():
        counts.update(changed.counts)
    agreed = {run_id: left_out[run_id] for run_id in again - refused.keys() if left_out[run_id].items}
    return Lacking(refused=refused, agreed=agreed, counts=counts)


async def refusal(connection: AsyncConnection, run_name: str, items: ChangedItems) -> Conflict:
    """Return the error that says why a run, which has succeeded, does not run again without these items."""
    named = items.items[:MOST_NAMED]
    query = select(_e.id, _e.extra).where(_e.id.in_({item.event_id for item in named}))
    extras = {row.id: json.loads(row.extra) for row in await connection.execute(query)}
    names = [name_of(extras[item.event_id]["files"][item.number]) for item in named]
    more = len(items.items) - len(named)
    listed = ", ".join(names) + (f" and {more:,} more" if more else "")
    fates = sorted(items.counts)
    counted = " and ".join(f"{items.counts[fate]:,} {fate.value}" for fate in fates)
    remedy = " and ".join(f"include_{fate.value}" for fate in fates)
    return Conflict(
        f"the run {run_name!r} has succeeded, and {counted} of its files would be missing now ({listed}), so that its part would be"
        f" replaced by one with fewer rows; give {remedy} to run it without them"
    )


def name_of(file: Mapping[str, Any]) -> str:
    """Return the name of a file as people write it, from what an event says of it."""
    return f"s3://{file['bucket']}/{file['key']}" if "key" in file else str(file["path"])
