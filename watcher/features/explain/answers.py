"""What became of one item of a source: every watcher that could have it is asked, and the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import Final
from urllib.parse import quote

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets, watcher_assets, watchers
from store.catalog.watchers import WatcherRow
from store.database.paging import now_of
from store.detection.sketches import microseconds
from store.errors import InvalidValue, NotFound
from store.fates import LEFT_OUT, Fate
from store.features.clean_source import cleanings, removed_files
from store.features.clean_source.removed_files import RemovedFile
from store.features.explain import explanations, item_search
from store.features.explain.explanations import OutletOfRun
from store.features.explain.item_search import ItemName, NamingEvent, NamingEvents
from store.references import has_where
from store.runs import fates
from store.runs.fates import ConsumedBy, EventAtJob
from store.runs.queue import waiting
from store.runs.tries import changed_items
from store.runs.tries.changed_items import NONE_CHANGED, ChangedItems
from triggers.explanations import Explanation
from watcher.features.explain.beginning import Beginning, beginning_of, inventory_of
from watcher.features.explain.trigger_questions import EXPLAIN_WITHIN, could_have, explain
from watcher.features.explain.verdicts import Evidence, Verdict, verdict
from watcher.serving.api.context import ApiContext
from watcher.triggerer.control import Control

MOST_ASKED: Final = 50
"""The most watchers that one question asks. With more, a person names one."""
_AT_A_TIME: Final = 8


@dataclass(frozen=True, kw_only=True)
class RunWithItem:
    """A run that has an event with the item. `table` and `commit` are what it wrote, as far as it said so."""

    run: ConsumedBy
    table: str | None
    commit: str | None


@dataclass(frozen=True, kw_only=True)
class WatcherAnswer:
    """What became of an item in one watcher."""

    watcher: WatcherRow
    asset: str
    """The asset of the newest event that names the item; the watcher's own where none does."""
    verdict: Verdict
    naming: NamingEvents
    runs: Sequence[RunWithItem]


async def answers(
    context: ApiContext, control: Control, item: str, watcher: str | None, beginning: Beginning | None = None
) -> Sequence[WatcherAnswer]:
    """Return an answer for each watcher that could have the item; if none could, each says why. Raises `InvalidValue`, `NotFound`.

    `beginning` is that of the one `watcher`, if a comparison knows it already; else it is read where it decides.
    """
    names = [watcher] if watcher is not None else _asked(control, item)
    explained: dict[str, Explanation] = {}
    limit = anyio.CapacityLimiter(_AT_A_TIME)

    async def ask(name: str) -> None:
        async with limit:
            explained[name] = await explain(control, name, item)

    if watcher is not None:
        explained[watcher] = await explain(control, watcher, item)  # alone, so that what it raises is no group
    else:
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(ask, name)
    inside = [name for name in names if explained[name].state != "outside"] or names
    async with context.database.reading() as connection:
        told = {name: await _answer(context, connection, name, explained[name], beginning) for name in sorted(inside)}
    for name, answer in told.items():
        if beginning is None and answer.verdict.event is None and explained[name].state == "reported":
            told[name] = await _with_beginning(context, control, name, explained[name]) or answer
    return [*told.values()]


async def _with_beginning(
    context: ApiContext, control: Control, name: str, explanation: Explanation
) -> WatcherAnswer | None:
    """Answer once more about an item that no event names, by the rules of a comparison. None: the trigger cannot list its source."""
    hosted, kept = control.known(name), timedelta(days=context.limits.event_retention_days)
    with anyio.move_on_after(EXPLAIN_WITHIN):
        inventory = await inventory_of(hosted, control.clients)
        if inventory is None:
            return None
        async with context.database.reading() as connection:
            begin = await beginning_of(connection, hosted, inventory, kept)
            return await _answer(context, connection, name, explanation, begin)
    return None


def _asked(control: Control, item: str) -> Sequence[str]:
    """Return the watchers to ask. Raises `InvalidValue` if they are too many."""
    names = could_have(control, item)
    if len(names) > MOST_ASKED:
        raise InvalidValue(f"{len(names)} watchers could have {item!r}; name the one that is meant (watcher)")
    return names or (list(control.hosted) if len(control.hosted) <= MOST_ASKED else [])


async def _answer(
    context: ApiContext,
    connection: AsyncConnection,
    name: str,
    explanation: Explanation,
    beginning: Beginning | None,
) -> WatcherAnswer:
    row = await _row_of(context, connection, name)
    naming = await _naming(connection, row, explanation)
    ids = [event.id for event in naming.events]
    asset_id = naming.events[0].asset_id if naming.events else row.asset_id
    got = await fates.at_jobs(connection, ids)
    changed = await changed_items.of_last_tries(connection, _runs_of(got))
    removed = await removed_files.of_events(connection, ids)
    at_jobs = _at_jobs(got, changed, removed, naming)
    jobs = await waiting.jobs_scheduled_on(connection, asset_id)
    scheduled = [job.dag_id for job in jobs]
    since = naming.events[-1].timestamp if naming.events else None
    now, limits = await now_of(connection), context.limits
    deletions = () if since is None else await explanations.deletions_after(connection, asset_id, scheduled, since)
    evidence = Evidence(
        watcher=row,
        naming=naming,
        at_jobs=at_jobs,
        deletions=deletions,
        rejections=await explanations.rejections_of(connection, name, explanation.rejected_as or explanation.name),
        scheduled=explanations.records(await fates.unrecorded_to(connection, scheduled), deletions),
        filtered=[job.dag_id for job in jobs if has_where(job.definition.schedule)],
        begun=await explanations.begun_at(connection, asset_id),
        events_since=now - timedelta(days=limits.event_retention_days),
        runs_since=now - timedelta(days=limits.run_retention_days),
        cleanings=await cleanings.of_events(connection, ids),
        removed=removed,
        beginning=beginning,
    )
    return WatcherAnswer(
        watcher=row,
        asset=row.asset if asset_id == row.asset_id else (await assets.ref_of(connection, asset_id)).name,
        verdict=verdict(explanation, evidence),
        naming=naming,
        runs=await _with_tables(connection, chain(*at_jobs.values())),
    )


def _runs_of(at_jobs: Mapping[int, Sequence[EventAtJob]]) -> Collection[int]:
    return {each.run.id for each in chain(*at_jobs.values()) if each.run is not None}


def _at_jobs(
    at_jobs: Mapping[int, Sequence[EventAtJob]],
    changed: Mapping[int, ChangedItems],
    removed: Mapping[int, Mapping[int, RemovedFile]],
    naming: NamingEvents,
) -> Mapping[int, Sequence[EventAtJob]]:
    """Return what became of the item at each job that got one of these events, with whether its run's last try got it.

    A run may have left out the version of an event. One that was skipped had nothing but what was cleaned or is superseded.
    """

    def given(event: NamingEvent, each: EventAtJob) -> EventAtJob:
        left_out = _left_out(event, each, changed)
        is_cleaned = event.place in removed.get(event.id, {})
        was_skipped = each.skipped_for is Fate.SUPERSEDED or (each.skipped_for is Fate.CLEANED and not is_cleaned)
        if each.fate is not Fate.QUEUED and (was_skipped or left_out is Fate.SUPERSEDED):
            each = replace(each, fate=Fate.SUPERSEDED)
        return replace(each, is_left_out=left_out is not None)

    return {event.id: [given(event, each) for each in at_jobs.get(event.id, ())] for event in naming.events}


def _left_out(event: NamingEvent, each: EventAtJob, changed: Mapping[int, ChangedItems]) -> Fate | None:
    """Return the fate of the item for which the last try of the event's run did not get it; None: the try got it."""
    if each.run is None:
        return each.left_out.get(event.place)
    item = changed.get(each.run.id, NONE_CHANGED).by_event.get(event.id, {}).get(event.place)
    return item.fate if item is not None and item.fate in LEFT_OUT else None


async def _row_of(context: ApiContext, connection: AsyncConnection, name: str) -> WatcherRow:
    try:
        return context.process.health.merged(await watchers.get(connection, name))
    except NotFound:
        sentence = f"the watcher {name!r} is in the configuration, but was never started; start `watcher run`"
        raise NotFound(sentence) from None


async def _naming(connection: AsyncConnection, row: WatcherRow, explanation: Explanation) -> NamingEvents:
    """Return the events that name the item."""
    if explanation.name is None:
        return NamingEvents(events=(), has_more=False)
    asset_ids = await watcher_assets.assets_of(connection, [row.name])
    return await item_search.events_naming(connection, _name_of(row, asset_ids, explanation))


def _name_of(row: WatcherRow, asset_ids: Collection[int], explanation: Explanation) -> ItemName:
    number = explanation.name if explanation.in_ranges else None
    if explanation.version is not None and isinstance(written := explanation.version.get("last_modified"), str):
        number = microseconds(written)
    return ItemName(
        watcher=row.name,
        asset_ids=asset_ids,
        name=explanation.name,
        in_ranges=explanation.in_ranges,
        number=number,
    )


async def _with_tables(connection: AsyncConnection, at_jobs: Iterable[EventAtJob]) -> Sequence[RunWithItem]:
    consumed = sorted((each.run for each in at_jobs if each.run is not None), key=lambda run: run.id)
    runs = {(run.dag_id, run.run_id): run for run in consumed}
    outlets = await explanations.outlets_of(connection, runs.keys())
    targets = await explanations.targets_of(connection, {run.dag_id for run in consumed})
    return [
        RunWithItem(run=run, table=table, commit=commit)
        for key, run in runs.items()
        for table, commit in [_written(outlets, key, targets.get(run.dag_id))]
    ]


def _written(outlets: Sequence[OutletOfRun], key: tuple[str, str], target: str | None) -> tuple[str | None, str | None]:
    """Return the table and the commit that a run says it wrote; without an event of its own it has written nothing."""
    mine = [outlet for outlet in outlets if (outlet.dag_id, outlet.run_id) == key]
    if not mine:
        return None, None
    extra = mine[0].extra
    commit = next((extra[name] for name in ("commit", "snapshot_id", "version") if name in extra), None)
    return str(extra.get("table") or target or mine[0].uri), None if commit is None else str(commit)


def page_of(answer: WatcherAnswer) -> str:
    """Return the address of the page with more: the deciding event's, else the watcher's."""
    event = answer.verdict.event
    return f"watchers/{quote(answer.watcher.name, safe='')}" if event is None else f"events/{event.id}"


def url_of(context: ApiContext, answer: WatcherAnswer) -> str:
    return f"{(context.links.base_url or '').rstrip('/')}/{page_of(answer)}"
