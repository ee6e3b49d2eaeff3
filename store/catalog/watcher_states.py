"""The changes of the watchers' states, recorded with what shows a state now: what happened while nobody looked.

A row is written where the state differs from the newest one of the watcher, in the transaction that shows it. So a watcher that
stays as it is costs nothing. A process that starts or ends says nothing about a watcher, and is no change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Insert,
    Select,
    Update,
    and_,
    case,
    func,
    insert,
    literal,
    null,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import database_now, database_time_in, watcher, watcher_state

KEPT_DAYS: Final = 8
"""How long the clean-up keeps changes: a week that ends now, and a day."""
MOST: Final = 200
"""The most rows of a watcher within 24 hours. The last one is `unstable`, and stands for what follows."""
TOO_MANY: Final = f"its state changed {MOST} times within 24 hours; what followed is not recorded"
"""The sentence of a watcher's last row of a day that had too many changes."""
_DAY: Final = 86_400.0
_COLUMNS: Final = ("watcher", "at", "state", "sentence")
_SEEN: Final = (watcher.c.name, watcher.c.state, watcher.c.paused, watcher.c.error)
_SHOWN: Final = ("running", "unstable", "failing", "blocked", "waiting")
"""The states of a hosted watcher that say whether it works."""


async def change(connection: AsyncConnection, changed: Update, rows: Sequence[Mapping[str, Any]]) -> None:
    """Change watchers, one for each row of parameters (`which` is its name), and record the states that they have then.

    On PostgreSQL it is one statement for each row, so that it may be used where each statement is a transaction.
    """
    if connection.dialect.name == "postgresql":
        await connection.execute(_with_record(changed), rows)
    elif (await connection.execute(changed, rows)).rowcount:
        await record(connection, [row["which"] for row in rows])


async def record(connection: AsyncConnection, names: Collection[str]) -> None:
    """Record the states of these watchers, of those that differ, in the transaction that has changed them."""
    shown = select(*_SEEN).where(watcher.c.name.in_(names)).subquery("shown")
    await connection.execute(insert(watcher_state).from_select(_COLUMNS, _new(shown)))


def _with_record(changed: Update) -> Insert:
    shown = changed.returning(*_SEEN).cte("shown")
    return insert(watcher_state).from_select(_COLUMNS, _new(shown))


def _new(watchers: FromClause) -> Select[Any]:
    """Select the rows to insert for watchers, with their names, states, pauses and errors as they are now."""
    w = watchers.c
    state = case(
        (w.paused, "paused"),
        (or_(*(w.state == works for works in _SHOWN)), w.state),
        (and_(w.state == "stopped", w.error.is_not(None)), "unassigned"),
        else_=null(),
    )
    columns = (
        w.name,
        w.error,
        state.label("shown"),
        _newest(w.name).label("newest"),
        _of_day(w.name).label("recorded"),
    )
    c = select(*columns).select_from(watchers).subquery("current").c
    is_last = c.recorded == MOST - 1
    new = case((is_last, "unstable"), else_=c.shown)
    sentence = case((is_last, TOO_MANY), (c.shown == "running", null()), else_=c.error)
    differs = and_(c.shown.is_not(None), new.is_distinct_from(c.newest), c.recorded < MOST)
    return select(c.name, database_now(), new, sentence).where(differs)


def _of_day(name: ColumnElement[str]) -> ColumnElement[int]:
    s = watcher_state.c
    is_of_day = s.at > database_time_in(literal(-_DAY))
    return select(func.count()).select_from(watcher_state).where(s.watcher == name, is_of_day).scalar_subquery()


def _newest(name: ColumnElement[str]) -> ColumnElement[str | None]:
    s = watcher_state.c
    return select(s.state).where(s.watcher == name).order_by(s.id.desc()).limit(1).scalar_subquery()
