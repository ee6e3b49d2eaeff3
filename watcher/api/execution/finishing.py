"""The end of a try: its state, the events of its outlets with their queue rows, and its own state wiped, all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import structlog
from pydantic import AfterValidator, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from config.uris import normalise
from store.catalog import aliases, assets
from store.catalog.aliases import NamedAsset, Resolved
from store.detection import events
from store.detection.events import NewEvent
from store.runs import answers, runs, tries
from store.runs.try_lock import FencedTry
from store.state import entries
from store.values import to_json
from watcher.api.execution.identity import Call, forbidden, task_scope
from watcher.api.parameters import Body, Text

log = structlog.get_logger()
_NOTHING: Final[tuple[int, Mapping[str, int]]] = (0, {})
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
    """Commit what the job says of itself; a repetition of an accepted word changes nothing. Raises `TryFenced`, 403, `Answered`."""
    context = call.context
    async with context.database.transaction() as connection:
        held = await tries.finish(
            connection,
            call.task_instance_id,
            call.try_number,
            finish_state=state,
            message=message or None,
            asked=call.asked,
        )
        await answers.tell(connection, call.task_instance_id, call.asked, "{}")
        if held is None:
            return
        told, created = _NOTHING
        if state == "success":
            told, created = await _tell(connection, held, outlet_events, context.database.dialect)
        if state == "success" and context.clear_on_success:
            await entries.clear_task(context.backend, task_scope(held), connection=connection)
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
    identity_of_try = {name: getattr(held, name) for name in names}
    for uri, asset_id in created.items():
        log.warning("asset.created", uri=uri, asset_id=asset_id, **identity_of_try)
    log.info("try.finished", state=state, events=told, **identity_of_try)
    context.wake()


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What one event says, and the aliases it came through."""

    extra: str
    alias_ids: set[int] = field(default_factory=set)


async def _tell(
    connection: AsyncConnection, held: FencedTry, outlet_events: Sequence[OutletEvent], dialect: str
) -> tuple[int, Mapping[str, int]]:
    """Append the events of a success, with what they teach of aliases; returns how many, and the assets made for them."""
    through = await _resolved(connection, [event.asset for event in outlet_events], dialect)
    told = await _told(connection, held, outlet_events, {uri: found.asset_id for uri, found in through.items()})
    # By asset: two tasks that end at once take the assets' locks in one order.
    ordered = sorted(told.items(), key=lambda item: item[0][0])
    pairs = {(asset_id, alias_id) for (asset_id, _), event in ordered for alias_id in event.alias_ids}
    await aliases.associate(connection, pairs, dialect)
    run = await runs.run_by(connection, held.dag_id, held.run_id)
    source = {f"source_{name}": getattr(held, name) for name in ("dag_id", "run_id", "task_id", "map_index")}
    new = [
        NewEvent(asset_id=asset_id, extra=event.extra, trace_id=run["trace_id"], **source)
        for (asset_id, _), event in ordered
    ]
    ids = await events.append(connection, new)
    by_id = zip(ids, ordered, strict=True)
    await aliases.remember(connection, [(id_, alias_id) for id_, (_, event) in by_id for alias_id in event.alias_ids])
    return len(new), {uri: found.asset_id for uri, found in through.items() if found.created}


async def _told(
    connection: AsyncConnection, held: FencedTry, outlet_events: Sequence[OutletEvent], through: Mapping[str, int]
) -> Mapping[tuple[int, str], _Told]:
    """One event per (asset, extra), however often it was told, and one for each outlet the job said nothing about."""
    around = await assets.job_assets(connection, held.dag_id)
    outlets = {asset["name"]: asset["id"] for asset in around if asset["role"] == "outlet"}
    alias_ids = await aliases.of_job(connection, held.dag_id, {"outlet"})
    told: dict[tuple[int, str], _Told] = {}
    silent = set(outlets.values())
    for event in outlet_events:
        match event:
            case OutletEvent(asset=str() as name, alias=None) if name in outlets:
                asset_id = outlets[name]
                silent.discard(asset_id)
            case OutletEvent(asset=AliasedAsset() as asset, alias=str() as alias) if alias in alias_ids:
                asset_id = through[asset.uri]
            case _:
                raise _foreign(held.dag_id, event)
        extra = to_json(event.extra)
        one = told.setdefault((asset_id, _canonical(extra)), _Told(extra=extra))
        one.alias_ids.update({alias_ids[event.alias]} if event.alias is not None else ())
    return told | {(asset_id, "{}"): told.get((asset_id, "{}"), _Told(extra="{}")) for asset_id in silent}


async def _resolved(
    connection: AsyncConnection, named: Sequence[str | AliasedAsset], dialect: str
) -> Mapping[str, Resolved]:
    """By uri, the assets named through aliases, in the order in which all transactions make them."""
    resolved: dict[str, Resolved] = {}
    wanted = {(asset.uri, asset.name) for asset in named if isinstance(asset, AliasedAsset)}
    for uri, name in sorted(wanted):
        found = await aliases.resolve(connection, NamedAsset(uri=uri, name=name), dialect)
        resolved.setdefault(uri, found)
    return resolved


def _canonical(extra: str) -> str:
    """The same text for objects that differ in nothing but the order of their members."""
    return json.dumps(json.loads(extra), sort_keys=True)


def _foreign(dag_id: str, event: OutletEvent) -> Exception:
    if event.alias is not None and isinstance(event.asset, AliasedAsset):
        wanted = f"outlet `alias: {event.alias}`"
    else:
        wanted = f"outlet {event.asset if isinstance(event.asset, str) else event.asset.uri!r}"
    return forbidden(f"the job {dag_id} has no {wanted}; add it to its outlets")
