"""The end of a try: its state, the events of its outlets with their queue rows, and its own state wiped, all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import structlog
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from store import abilities, events, listings, run_listings, tries
from store.errors import InvalidValue
from store.events import NewEvent
from store.tries import FencedTry
from store.values import to_json
from watcher.api.context import ApiContext
from watcher.api.execution.identity import forbidden, task_scope
from watcher.api.parameters import Body, Text
from watcher.try_tokens import TryIdentity

log = structlog.get_logger()


class OutletEvent(Body):
    """An event of an outlet: by the asset's name, or through an alias with the concrete asset."""

    asset: Text | dict[str, Any]
    alias: Text | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


async def finish(
    context: ApiContext,
    identity: TryIdentity,
    state: Literal["success", "failed", "skipped"],
    outlet_events: Sequence[OutletEvent],
    message: str | None,
) -> None:
    """Commit what the job says of itself; a repetition of an accepted word changes nothing. Raises `TryFenced`, 403."""
    async with context.database.transaction() as session:
        held = await tries.finish(
            session, identity.task_instance_id, identity.try_number, finish_state=state, message=message or None
        )
        if held is None:
            return
        told = await _outlet_events(session, held, outlet_events) if state == "success" else []
        await events.append(session, told)
        if state == "success" and context.clear_on_success:
            await abilities.clear_task(context.backend, task_scope(held), session=session)
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
    log.info("try.finished", state=state, events=len(told), **{name: getattr(held, name) for name in names})
    context.wake()


async def _outlet_events(
    session: AsyncSession, held: FencedTry, outlet_events: Sequence[OutletEvent]
) -> Sequence[NewEvent]:
    around = await listings.job_assets(session, held.dag_id)
    outlets = {asset["name"]: asset["id"] for asset in around if asset["role"] == "outlet"}
    run = await run_listings.run_by(session, held.dag_id, held.run_id)
    return [
        NewEvent(
            asset_id=outlets[name],
            extra=extra,
            trace_id=run["trace_id"],
            source_dag_id=held.dag_id,
            source_run_id=held.run_id,
            source_task_id=held.task_id,
            source_map_index=held.map_index,
        )
        for name, extra in _extras(held.dag_id, outlets, outlet_events)
    ]


def _extras(dag_id: str, outlets: Mapping[str, int], outlet_events: Sequence[OutletEvent]) -> Sequence[tuple[str, str]]:
    """One event per (asset, extra), however often it was told, and one for each outlet the job said nothing about."""
    told: dict[tuple[str, str], None] = {}
    for event in outlet_events:
        if event.alias is not None or not isinstance(event.asset, str):
            raise InvalidValue("events through an alias are not supported yet; name an outlet of the job as `asset`")
        if event.asset not in outlets:
            raise forbidden(f"the job {dag_id} has no outlet {event.asset!r}; add it to its outlets")
        told[event.asset, to_json(event.extra)] = None
    silent = outlets.keys() - {name for name, _ in told}
    return [*told, *((name, "{}") for name in sorted(silent))]
