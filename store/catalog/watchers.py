"""The watchers' own rows: how each is doing, and what people asked of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_states
from store.database.paging import all_of, now_of, one_of
from store.database.schema import asset, database_now, triggerer, watcher, watcher_position
from store.errors import no_watcher
from store.keys import AssetRef
from store.values import to_json


@dataclass(frozen=True, kw_only=True)
class WatcherRow:
    """A configured watcher as everybody sees it; `watermark` is JSON text or None.

    `up_to_now` is the watermark's `up_to` as the clock has moved it since it was written, as `up_to_version`.
    """

    name: str
    asset_id: int
    asset: str
    trigger: str
    state: str
    paused: bool
    owner: str | None
    position_version: int | None
    watermark: str | None
    last_poll_at: datetime | None
    lag_at_poll: int | None
    up_to_now: str | None
    up_to_version: int | None
    last_event_at: datetime | None
    error: str | None
    error_count: int
    seen_at: datetime
    failing_since: datetime | None = None
    """The time since which it has not worked, whatever was restarted in between."""
    next_try_at: datetime | None = None
    findings: str | None = None
    """JSON text: a list of objects with `check`, `level`, `message`, `remedy` and `since`; None: there is nothing."""

    @property
    def findings_now(self) -> Sequence[Mapping[str, Any]]:
        """The findings of a watcher that is hosted; nobody checks the others."""
        return [] if self.findings is None or self.state in _UNHOSTED else json.loads(self.findings)

    @property
    def is_unassigned(self) -> bool:
        """It is unassigned: no triggerer hosts it although one should; `error` says why."""
        return self.state == "stopped" and self.error is not None

    @property
    def has_given_up(self) -> bool:
        """It was paused by its own failures, not by a person; `error` says so."""
        return self.paused and self.error_count > 0

    @property
    def watermark_now(self) -> str | None:
        """The watermark, with its `up_to` as the clock has moved it."""
        if self.watermark is None or self.up_to_now is None or self.up_to_version != self.position_version:
            return self.watermark
        watermark = json.loads(self.watermark)
        if not isinstance(watermark, dict) or "up_to" not in watermark:
            return self.watermark
        return to_json({**watermark, "up_to": json.loads(self.up_to_now)})

    @property
    def lag_seconds(self) -> float | None:
        """Seconds since the start of the last whole poll that was committed or found nothing; None before the first."""
        if self.last_poll_at is None or self.lag_at_poll is None:
            return None
        return max((self.seen_at - self.last_poll_at).total_seconds(), 0) + self.lag_at_poll


@dataclass(frozen=True, kw_only=True)
class Polled:
    """A watcher polled its source this long `ago`; its last whole poll had begun `lag` seconds before that.

    `up_to` is JSON text: the `up_to`, as the clock has moved it, of the watermark that is the position's `version`.
    """

    ago: timedelta
    lag: int
    version: int | None = None
    up_to: str | None = None


async def listed(connection: AsyncConnection) -> Sequence[WatcherRow]:
    """Return the configured watchers, by name."""
    return await all_of(connection, selected(), WatcherRow)


async def get(connection: AsyncConnection, name: str) -> WatcherRow:
    """Return one configured watcher. Raises `NotFound`."""
    return await one_of(connection, selected().where(watcher.c.name == name), WatcherRow, no_watcher(name))


async def is_configured(connection: AsyncConnection, name: str) -> bool:
    rows = await connection.execute(select(watcher.c.name).where(watcher.c.name == name, watcher.c.active))
    return rows.one_or_none() is not None


async def with_events(connection: AsyncConnection) -> frozenset[str]:
    """Return the names of the watchers that have reported anything."""
    rows = await connection.execute(select(watcher.c.name).where(watcher.c.last_event_at.is_not(None)))
    return frozenset(rows.scalars())


async def asset_of(connection: AsyncConnection, name: str) -> AssetRef:
    """Return the asset that a watcher is configured for. Raises `NotFound`."""
    query = select(asset.c.id, asset.c.name, asset.c.uri).join(watcher, watcher.c.asset_id == asset.c.id)
    return await one_of(connection, query.where(watcher.c.name == name), AssetRef, no_watcher(name))


@cache
def selected() -> Select[Any]:
    """Select the configured watchers as `WatcherRow`, by name."""
    w, p = watcher.c, watcher_position.c
    state = case((w.paused, "paused"), else_=w.state).label("state")
    own = (
        *(w.name, w.asset_id, w.trigger, state, w.paused, w.last_poll_at, w.last_event_at),
        *(w.error, w.error_count, w.findings, w.failing_since, w.next_try_at),
    )
    of_polls = (
        w.lag_seconds.label("lag_at_poll"),
        w.up_to.label("up_to_now"),
        w.up_to_version,
        database_now().label("seen_at"),
    )
    of_position = (p.owner, p.version.label("position_version"), p.watermark)
    return (
        select(*own, *of_polls, asset.c.name.label("asset"), *of_position)
        .join(asset, asset.c.id == w.asset_id)
        .outerjoin(watcher_position, p.watcher == w.name)
        .where(w.active)
        .order_by(w.name)
    )


async def set_state(connection: AsyncConnection, name: str, state: str, *, error: str | None, error_count: int) -> None:
    """Record how a watcher is doing."""
    row = update(watcher).where(watcher.c.name == name)
    values = row.values(state=state, error=error, error_count=error_count, failing_since=_since(state))
    await connection.execute(values)
    await watcher_states.record(connection, [name])


@dataclass(frozen=True, kw_only=True)
class WatcherState:
    """How a watcher is doing."""

    state: str
    error: str | None = None
    error_count: int = 0
    findings: str | None = None
    """JSON text, as in `WatcherRow`."""
    next_try_at: datetime | None = None


async def set_states(connection: AsyncConnection, owner: str, states: Mapping[str, WatcherState]) -> None:
    """Record how watchers are doing, in order of name; skip those whose position another owner holds by now."""
    if states:
        rows = [{"which": name, "whose": owner, **vars(state)} for name, state in sorted(states.items())]
        await watcher_states.change(connection, _STATES, rows)


async def set_stopped(connection: AsyncConnection, names: Collection[str]) -> None:
    """Record, in order of name, that the triggerer of these watchers ended."""
    if names:
        row = update(watcher).where(watcher.c.name == bindparam("which"))
        stopped = row.values(state="stopped", error=None, error_count=0, next_try_at=None)
        await connection.execute(stopped, [{"which": name} for name in sorted(names)])


async def set_unassigned(connection: AsyncConnection, reasons: Mapping[str, str]) -> None:
    """Record why nobody hosts these watchers; skip those that a living triggerer holds."""
    w, p, t = watcher.c, watcher_position.c, triggerer.c
    hosted = exists().where(p.watcher == w.name, t.id == p.owner, t.expires_at > database_now())
    same = and_(w.state == "stopped", w.error.is_not_distinct_from(bindparam("error")))
    row = update(watcher).where(w.name == bindparam("which"), ~hosted, ~same)
    left = row.values(state="stopped", error=bindparam("error"), error_count=0, failing_since=_SINCE, next_try_at=None)
    rows = [{"which": name, "error": why} for name, why in sorted(reasons.items())]
    await watcher_states.change(connection, left, rows)


async def set_polled(connection: AsyncConnection, owner: str, polled: Mapping[str, Polled]) -> None:
    """Record when watchers last polled their sources, many at once, by the database's clock.

    Those whose position another owner holds by now are skipped.
    """
    if not polled:
        return
    now = await now_of(connection)
    looks = [
        {
            "which": name,
            "whose": owner,
            "at": now - look.ago,
            "lag": look.lag,
            "now": look.up_to,
            "version": look.version,
        }
        for name, look in sorted(polled.items())
    ]
    await connection.execute(_POLLED, looks)


async def set_polls(connection: AsyncConnection, owner: str, polls: Mapping[str, str]) -> None:
    """Record the history of polls, JSON text, of watchers whose positions are the owner's."""
    rows = [{"which": name, "whose": owner, "history": history} for name, history in sorted(polls.items())]
    if rows:
        await connection.execute(_OWN.values(polls=bindparam("history")), rows)


async def findings_since(connection: AsyncConnection, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """Return since when each check of these watchers has had its finding, as their last host has stored it."""
    w = watcher.c
    rows = await connection.execute(select(w.name, w.findings).where(w.name.in_(names), w.findings.is_not(None)))
    return {row.name: {finding["check"]: finding["since"] for finding in json.loads(row.findings)} for row in rows}


async def stored_polls(connection: AsyncConnection, names: Collection[str]) -> Mapping[str, str]:
    """Return the poll histories of these watchers, of those that have one."""
    w = watcher.c
    rows = await connection.execute(select(w.name, w.polls).where(w.name.in_(names), w.polls.is_not(None)))
    return {row.name: row.polls for row in rows}


_OWN: Final = update(watcher).where(
    watcher.c.name == bindparam("which"),
    exists().where(watcher_position.c.watcher == watcher.c.name, watcher_position.c.owner == bindparam("whose")),
)
_SINCE: Final = func.coalesce(watcher.c.failing_since, database_now())
_UNHOSTED: Final = frozenset({"stopped", "paused"})


def _since(state: ColumnElement[str] | str) -> ColumnElement[datetime | None]:
    """Return since when a watcher does not work that has this state from now on."""
    new = literal(state) if isinstance(state, str) else state
    is_undecided = or_(new == "starting", new == "stopped")  # which says nothing about whether it works
    return case((new == "running", null()), (is_undecided, watcher.c.failing_since), else_=_SINCE)


_STATES: Final = _OWN.values(
    {name: bindparam(name) for name in ("state", "error", "error_count", "findings", "next_try_at")}
    | {"failing_since": _since(bindparam("state", type_=String))}
)
_POLLED: Final = _OWN.values(
    last_poll_at=bindparam("at"),
    lag_seconds=bindparam("lag"),
    up_to=bindparam("now"),
    up_to_version=bindparam("version"),
)


async def set_paused(connection: AsyncConnection, name: str, *, paused: bool) -> None:
    """Pause or resume a watcher for a person, whatever it has failed at; survives restarts. Raises `NotFound`."""
    configured = update(watcher).where(watcher.c.name == name, watcher.c.active).returning(watcher.c.name)
    changed = configured.values(paused=paused, error=None, error_count=0, failing_since=None, next_try_at=None)
    if (await connection.execute(changed)).one_or_none() is None:
        raise no_watcher(name)
    await watcher_states.record(connection, [name])


async def give_up(connection: AsyncConnection, owner: str, name: str, *, error: str, error_count: int) -> bool:
    """Pause a watcher that only fails; return False if its position is not the owner's any more."""
    paused = _OWN.values(
        paused=True, error=bindparam("why"), error_count=bindparam("count"), failing_since=_SINCE, next_try_at=None
    )
    row = {"which": name, "whose": owner, "why": error, "count": error_count}
    has_paused = (await connection.execute(paused, row)).rowcount == 1
    if has_paused:
        await watcher_states.record(connection, [name])
    return has_paused


async def definitions(connection: AsyncConnection) -> Mapping[str, str | None]:
    """Return the configured watchers, each with the hash of its applied definition, None if an older program applied it."""
    result = await connection.execute(select(watcher.c.name, watcher.c.definition).where(watcher.c.active))
    return {row.name: row.definition for row in result}


async def paused_watchers(connection: AsyncConnection) -> frozenset[str]:
    """Return the names of the configured watchers that people, or their own failures, have paused."""
    result = await connection.execute(select(watcher.c.name).where(watcher.c.active, watcher.c.paused))
    return frozenset(result.scalars())
