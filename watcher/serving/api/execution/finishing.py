"""The end of a try: its state, the events of its outlets with their queue rows, and its own state wiped, all at once."""

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
from store.detection import events
from store.detection.events import AppendedEvents, NewEvent
from store.keys import TryKey
from store.runs import answers, tries
from store.values import to_json
from watcher.host.loops import Hint
from watcher.serving.api.execution.identity import Call, forbidden
from watcher.serving.api.parameters import Body, Text

log = structlog.get_logger()
_NOTHING: Final[tuple[AppendedEvents, Mapping[str, int]]] = (AppendedEvents(rows=(), dag_ids=frozenset()), {})
_Name = Annotated[Text, Field(max_length=1500)]


class AliasedAsset(Body):
    """The concrete asset of an event through an alias."""

    uri: Annotated[_Name, AfterValidator(normalise)]
    name: _Name = ""


class OutletEvent(Body):
    """An event of an outlet: by the asset's name, or through an alias with the concrete asset."""

    asset: Text | AliasedAsset
    alias: Text | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


async def finish(
    call: Call,
    state: Literal["success", "failed", "skipped"],
    outlet_events: Sequence[OutletEvent],
    message: str | None,
) -> None:
    """Commit what the job says of itself; a repetition of an accepted word changes nothing. Raises `TryFenced`, 403, `ReplayedResponse`."""
    context = call.context
    async with context.database.transaction() as connection:
        finished = await tries.finish(
            connection,
            call.ref,
            finish_state=state,
            message=message or None,
            request=call.request,
        )
        await answers.keep(connection, call.ref.task_instance_id, call.request, "{}")
        if finished is None:
            return
        held, run = finished.key, finished.run
        appended, created = _NOTHING
        if state == "success" and run is not None:
            appended, created = await _append(connection, held, run.trace_id, outlet_events, context.database.dialect)
        if state == "success" and context.jobs.clear_on_success:
            await context.entries.clear_task(connection, held.instance)
    for uri, asset_id in created.items():
        log.warning("asset.created", uri=uri, asset_id=asset_id, **held.bindings)
    log.info("try.finished", state=state, events=len(appended.rows), **held.bindings)
    if run is not None:
        context.process.metrics.count_end(run)
    context.hint(Hint(what="tries"))
    context.hint(Hint(what="queues", names=appended.dag_ids | {held.dag_id}))
    if appended.fills_outbox:
        context.hint(Hint(what="outbox"))


@dataclass(frozen=True, kw_only=True)
class _EventToAppend:
    """What an event says, and the aliases it came through."""

    extra: str
    alias_ids: set[int] = field(default_factory=set)


async def _append(
    connection: AsyncConnection, held: TryKey, trace_id: str, outlet_events: Sequence[OutletEvent], dialect: str
) -> tuple[AppendedEvents, Mapping[str, int]]:
    """Append the events of a success, with what they teach of aliases; returns them, and the assets made for them."""
    await configuration_lock.share(connection)
    through = await _resolved(connection, [event.asset for event in outlet_events], dialect)
    asset_ids = {uri: resolved.asset_id for uri, resolved in through.items()}
    to_append = await _to_append(connection, held.dag_id, outlet_events, asset_ids)
    # By asset: two tasks that end at once take the assets' locks in one order.
    ordered = sorted(to_append.items(), key=lambda item: item[0][0])
    pairs = {(asset_id, alias_id) for (asset_id, _), event in ordered for alias_id in event.alias_ids}
    await aliases.associate(connection, pairs, dialect)
    source: dict[str, Any] = {f"source_{name}": value for name, value in held.instance.columns.items()}
    new = [
        NewEvent(asset_id=asset_id, extra=event.extra, trace_id=trace_id, **source) for (asset_id, _), event in ordered
    ]
    appended = await events.append(connection, new)
    by_id = zip(appended.rows, ordered, strict=True)
    through_alias = [(event_id, alias_id) for (event_id, _), (_, event) in by_id for alias_id in event.alias_ids]
    await aliases.remember(connection, through_alias)
    return appended, {uri: resolved.asset_id for uri, resolved in through.items() if resolved.created}


async def _to_append(
    connection: AsyncConnection, dag_id: str, outlet_events: Sequence[OutletEvent], through: Mapping[str, int]
) -> Mapping[tuple[int, str], _EventToAppend]:
    """One event per (asset, extra), however often the job reports it, and one for each outlet it reports nothing of."""
    around = await assets.around_job(connection, dag_id)
    outlets: dict[str, int] = {asset.name: asset.id for asset in around if asset.role == "outlet"}
    alias_ids = await aliases.of_job(connection, dag_id, {"outlet"})
    events_by_content: dict[tuple[int, str], _EventToAppend] = {}
    silent = set(outlets.values())
    for event in outlet_events:
        match event:
            case OutletEvent(asset=str() as name, alias=None) if name in outlets:
                asset_id = outlets[name]
                silent.discard(asset_id)
            case OutletEvent(asset=AliasedAsset() as asset, alias=str() as alias) if alias in alias_ids:
                asset_id = through[asset.uri]
            case _:
                raise _foreign(dag_id, event)
        extra = to_json(event.extra)
        same = events_by_content.setdefault((asset_id, _canonical(extra)), _EventToAppend(extra=extra))
        same.alias_ids.update({alias_ids[event.alias]} if event.alias is not None else ())
    for asset_id in silent:
        events_by_content.setdefault((asset_id, "{}"), _EventToAppend(extra="{}"))
    return events_by_content


async def _resolved(
    connection: AsyncConnection, named: Sequence[str | AliasedAsset], dialect: str
) -> Mapping[str, Resolved]:
    """By uri, the assets named through aliases, in the order in which all transactions make them."""
    resolved: dict[str, Resolved] = {}
    names = {(asset.uri, asset.name) for asset in named if isinstance(asset, AliasedAsset)}
    for uri, name in sorted(names):
        asset = await aliases.resolve(connection, uri, name or uri, dialect)
        resolved.setdefault(uri, asset)
    return resolved


def _canonical(extra: str) -> str:
    """The same text for objects that differ in nothing but the order of their members."""
    return json.dumps(json.loads(extra), sort_keys=True)


def _foreign(dag_id: str, event: OutletEvent) -> Exception:
    if event.alias is not None and isinstance(event.asset, AliasedAsset):
        outlet = f"outlet `alias: {event.alias}`"
    else:
        outlet = f"outlet {event.asset if isinstance(event.asset, str) else event.asset.uri!r}"
    return forbidden(f"the job {dag_id} has no {outlet}; add it to its outlets")
