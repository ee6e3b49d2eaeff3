"""The end of a try: its state, the events of its outlets with their queue rows, and the clearing of its task store, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import structlog
from pydantic import AfterValidator, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from config.models.uris import normalise
from store.catalog import aliases, assets
from store.catalog.aliases import Resolved
from store.database import configuration_lock
from store.database.asset_events import NewEvent
from store.detection import events
from store.detection.events import AppendedEvents
from store.detection.interest import EventHooks, EventOrigin
from store.keys import TryKey
from store.runs.runs import RunRow
from store.runs.tries import answers, tries
from store.values import to_json
from watcher.host.loops import Hint
from watcher.serving.api.execution.identity import Call, forbidden
from watcher.serving.api.parameters import Body, Count, Text, example

log = structlog.get_logger()
_NO_EVENTS: Final[tuple[AppendedEvents, Mapping[str, int]]] = (AppendedEvents(rows=(), dag_ids=frozenset()), {})
_Name = Annotated[Text, Field(max_length=1500)]


class AliasedAsset(Body):
    """The concrete asset of an event through an alias."""

    uri: Annotated[_Name, AfterValidator(normalise)]
    name: _Name = ""


class OutletEvent(Body):
    """An event of an outlet. It names the asset, or an alias together with the concrete asset."""

    asset: Text | AliasedAsset
    alias: Text | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


class Finish(Body):
    model_config = example(state="success", outlet_events=[{"asset": "orders", "extra": {"rows": 42}}])

    state: Literal["success", "failed", "skipped"]
    outlet_events: list[OutletEvent] = Field(default_factory=list)
    message: Text | None = None
    retry: bool = True
    """False: the try failed, and another one would fail alike, so the run fails without using up a retry."""
    bad_records: Count = 0
    """The records that a successful try has left out of its tables because they cannot be read as their schemas say."""


async def finish(call: Call, body: Finish) -> None:
    """Commit the end that the job reports. Repeating an accepted report changes nothing. Raises `TryFenced`, 403, `ReplayedResponse`."""
    context, state = call.context, body.state
    async with context.database.transaction() as connection:
        finished = await tries.finish(
            connection,
            call.ref,
            finish_state=state,
            message=body.message or None,
            is_final=not body.retry,
            bad_records=body.bad_records,
            request=call.request,
        )
        await answers.keep(connection, call.ref.task_instance_id, call.request, "{}")
        if finished is None:
            return
        try_key, run = finished.key, finished.run
        appended, created = _NO_EVENTS
        if state == "success" and run is not None:
            appended, created = await _append(connection, try_key, run, body.outlet_events, context.hooks)
        if state == "success" and context.jobs.clear_on_success:
            await context.entries.clear_task(connection, try_key.instance)
    for uri, asset_id in created.items():
        log.warning("asset.created", uri=uri, asset_id=asset_id, **try_key.bindings)
    log.info("try.finished", state=state, events=len(appended.rows), **try_key.bindings)
    if run is not None:
        context.process.metrics.count_end(run)
        context.process.metrics.count_bad_records(try_key.dag_id, finished.new_bad_records)
    context.hint(Hint(what="tries"))
    context.hint(Hint(what="queues", names=appended.dag_ids | {try_key.dag_id}))
    for wake in appended.wakes:
        context.hint(Hint(what=wake))


@dataclass(frozen=True, kw_only=True)
class _EventToAppend:
    """An event's extra, and the aliases through which it was reported."""

    extra: str
    alias_ids: set[int] = field(default_factory=set)


async def _append(
    connection: AsyncConnection, try_key: TryKey, run: RunRow, outlet_events: Sequence[OutletEvent], hooks: EventHooks
) -> tuple[AppendedEvents, Mapping[str, int]]:
    """Append the events of a success and the aliases they resolve. Return them, and the assets that were created for them."""
    dialect = connection.dialect.name
    await configuration_lock.share(connection)
    through = await _resolved(connection, [event.asset for event in outlet_events], dialect)
    asset_ids = {uri: resolved.asset_id for uri, resolved in through.items()}
    to_append = await _to_append(connection, try_key.dag_id, outlet_events, asset_ids)
    # Sorted by asset, so that tasks that end at the same time lock the assets in one order.
    ordered = sorted(to_append.items(), key=lambda item: item[0][0])
    pairs = {(asset_id, alias_id) for (asset_id, _), event in ordered for alias_id in event.alias_ids}
    await aliases.associate(connection, pairs, dialect)
    new = [
        NewEvent(
            asset_id=asset_id,
            extra=event.extra,
            trace_id=run.trace_id,
            partition_key=run.partition_key,
            source_dag_id=try_key.dag_id,
            source_run_id=try_key.run_id,
            source_task_id=try_key.task_id,
            source_map_index=try_key.map_index,
        )
        for (asset_id, _), event in ordered
    ]
    appended = await events.append(connection, new, origin=EventOrigin.JOB, hooks=hooks)
    by_id = zip(appended.rows, ordered, strict=True)
    through_alias = [(event_id, alias_id) for (event_id, _), (_, event) in by_id for alias_id in event.alias_ids]
    await aliases.remember(connection, through_alias)
    return appended, {uri: resolved.asset_id for uri, resolved in through.items() if resolved.created}


async def _to_append(
    connection: AsyncConnection, dag_id: str, outlet_events: Sequence[OutletEvent], through: Mapping[str, int]
) -> Mapping[tuple[int, str], _EventToAppend]:
    """Return one event per (asset, extra), however often the job reports it, and one for each outlet without a report."""
    around = await assets.around_job(connection, dag_id)
    outlets: dict[str, int] = {asset.name: asset.id for asset in around if asset.role == "outlet"}
    alias_ids = await aliases.of_job(connection, dag_id, {"outlet"})
    events_by_content: dict[tuple[int, str], _EventToAppend] = {}
    unreported = set(outlets.values())
    for event in outlet_events:
        match event:
            case OutletEvent(asset=str() as name, alias=None) if name in outlets:
                asset_id = outlets[name]
                unreported.discard(asset_id)
            case OutletEvent(asset=AliasedAsset() as asset, alias=str() as alias) if alias in alias_ids:
                asset_id = through[asset.uri]
            case _:
                raise _undeclared_outlet(dag_id, event)
        extra = to_json(event.extra)
        same = events_by_content.setdefault((asset_id, _canonical(extra)), _EventToAppend(extra=extra))
        same.alias_ids.update({alias_ids[event.alias]} if event.alias is not None else ())
    for asset_id in unreported:
        events_by_content.setdefault((asset_id, "{}"), _EventToAppend(extra="{}"))
    return events_by_content


async def _resolved(
    connection: AsyncConnection, named: Sequence[str | AliasedAsset], dialect: str
) -> Mapping[str, Resolved]:
    """Return the assets named through aliases, by uri. All transactions create them in the same order."""
    resolved: dict[str, Resolved] = {}
    names = {(asset.uri, asset.name) for asset in named if isinstance(asset, AliasedAsset)}
    for uri, name in sorted(names):
        asset = await aliases.resolve(connection, uri, name or uri, dialect)
        resolved.setdefault(uri, asset)
    return resolved


def _canonical(extra: str) -> str:
    """Return the same text for objects that differ only in the order of their members."""
    return json.dumps(json.loads(extra), sort_keys=True)


def _undeclared_outlet(dag_id: str, event: OutletEvent) -> Exception:
    if event.alias is not None and isinstance(event.asset, AliasedAsset):
        outlet = f"outlet `alias: {event.alias}`"
    else:
        outlet = f"outlet {event.asset if isinstance(event.asset, str) else event.asset.uri!r}"
    return forbidden(f"the job {dag_id} has no {outlet}; add it to its outlets")
