"""When watchers were not running within a span of time, joined where a drawing cannot tell it apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Float, Integer, Select, Subquery, bindparam, case, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.watcher_states import TOO_MANY
from store.database.paging import all_of
from store.database.schema import UtcDateTime, seconds_between, watcher, watcher_state


@dataclass(frozen=True, kw_only=True)
class WatcherInSpan:
    """A watcher that was not running all the time of the span, and how many of them there are."""

    name: str
    is_bad: bool
    """It had a state of those that somebody must look at."""
    seconds: float
    """How long it was not running."""
    total: int


@dataclass(frozen=True, kw_only=True)
class StateGroup:
    """Times in one state that began so close together that they are drawn as one."""

    watcher: str
    state: str
    times: int
    sentence: str | None
    began: datetime
    ended: datetime
    """The end of the span if the watcher is still in it."""
    is_cut: bool
    """It stands for changes that are not recorded."""


async def watchers_in(
    connection: AsyncConnection, since: datetime, until: datetime, *, bad: Collection[str], limit: int
) -> Sequence[WatcherInSpan]:
    """Return the watchers that were not running all the time, the worst first: those with a `bad` state, the longest first."""
    values = {"since": since, "until": until, "bad": sorted(bad), "most": limit}
    return await all_of(connection, _watchers(), WatcherInSpan, values)


async def states_in(
    connection: AsyncConnection, names: Collection[str], since: datetime, until: datetime, *, apart: float
) -> Sequence[StateGroup]:
    """Return when these watchers were not running; what began within the same `apart` seconds is one group."""
    if not names:
        return []
    values = {"since": since, "until": until, "apart": apart, "names": sorted(names)}
    return await all_of(connection, _groups(), StateGroup, values)


_SINCE: Final = bindparam("since", type_=UtcDateTime())
_UNTIL: Final = bindparam("until", type_=UtcDateTime())


def _spans() -> Subquery:
    s = watcher_state.c
    following = func.lead(s.at).over(partition_by=s.watcher, order_by=s.id)
    ended: ColumnElement[datetime] = func.coalesce(following, _UNTIL, type_=UtcDateTime())
    is_cut = case((s.sentence == TOO_MANY, 1), else_=0).label("is_cut")
    times = select(s.watcher, s.state, s.sentence, is_cut, s.at.label("began"), ended.label("ended"))
    c = times.join(watcher, watcher.c.name == s.watcher).where(s.at < _UNTIL, watcher.c.active).subquery("times").c
    return select(*c).where(c.ended > _SINCE, c.state != "running").subquery("spans")


@cache
def _watchers() -> Select[Any]:
    c = _spans().c
    began = case((c.began < _SINCE, _SINCE), else_=c.began)
    is_bad = func.max(case((c.state.in_(bindparam("bad", expanding=True)), 1), else_=0))
    seconds = func.sum(seconds_between(began, c.ended))
    query = select(
        c.watcher.label("name"), is_bad.label("is_bad"), seconds.label("seconds"), func.count().over().label("total")
    )
    ordered = query.group_by(c.watcher).order_by(is_bad.desc(), seconds.desc(), c.watcher)
    return ordered.limit(bindparam("most", type_=Integer()))


@cache
def _groups() -> Select[Any]:
    spans = _spans().c
    place = cast(seconds_between(_SINCE, spans.began) / bindparam("apart", type_=Float()), Integer).label("place")
    of_these = spans.watcher.in_(bindparam("names", expanding=True))
    c = select(*spans, place).where(of_these).subquery("some").c
    columns = (c.watcher, c.state, func.count().label("times"), func.max(c.sentence).label("sentence"), c.is_cut)
    times = (func.min(c.began).label("began"), func.max(c.ended).label("ended"))
    grouped = select(*columns, *times).group_by(c.watcher, c.state, c.is_cut, c.place)
    return grouped.order_by(c.watcher, func.min(c.began))
