"""The right to run of a try whose driver lives on another machine: renewed by the driver, judged by the homes."""

from __future__ import annotations

import math
from typing import Final

from sqlalchemy import String, and_, bindparam, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import database_now, seconds_between, task_try
from store.errors import LeaseHeld, TryFenced
from store.keys import TryRef

_a = task_try.c
_SILENCE: Final = select(
    seconds_between(func.coalesce(_a.renewed_at, _a.submitted_at, _a.intent_at), database_now())
).where(_a.tag == bindparam("tag"))
_HOLDER: Final = bindparam("b_holder", type_=String(64))
_MAY_RUN: Final = and_(
    _a.task_instance_id == bindparam("b_instance"),
    _a.try_number == bindparam("b_number"),
    _a.token_hash == bindparam("b_hash"),
    _a.ended_at.is_(None),
)
_HOLDS: Final = func.coalesce(_a.lease_holder, _HOLDER).is_not_distinct_from(func.coalesce(_HOLDER, _a.lease_holder))
_RENEW: Final = (
    update(task_try)
    .where(_MAY_RUN, _HOLDS)
    .values(renewed_at=database_now(), lease_holder=func.coalesce(_a.lease_holder, _HOLDER))
    .returning(_a.tag)
)
_IS_OPEN: Final = select(exists().where(_MAY_RUN))
_WAS_RENEWED: Final = select(exists().where(_a.tag == bindparam("tag"), _a.renewed_at.is_not(None)))
_OPEN_HERE: Final = and_(_a.tag == bindparam("tag"), _a.home_id == bindparam("home_id"))
_MAY_START: Final = select(exists().where(_OPEN_HERE, _a.ended_at.is_(None), _a.cancelled_at.is_(None)))


async def renew(connection: AsyncConnection, ref: TryRef, token_hash: str, holder: str | None) -> None:
    """Grant the right to run, or record that the driver lives. `token_hash` is that of the first token that it was given.

    `holder` is a random text of the container, the first of which is granted the right for good: a node that has lost what
    it knew starts the container of a pod once more. None: a driver that an older release started does not say it.

    Raises `TryFenced` if the end of the try is known, or if the try has been submitted again with another token since, and
    `LeaseHeld` if another container has the right.

    A try that has reported its result, or is being stopped, may be renewed: its driver still has to close what it opened.
    """
    parameters = {"b_instance": ref.task_instance_id, "b_number": ref.try_number, "b_hash": token_hash}
    if (await connection.execute(_RENEW, {**parameters, "b_holder": holder})).one_or_none() is not None:
        return
    if (await connection.execute(_IS_OPEN, parameters)).scalar_one():
        raise LeaseHeld(f"try {ref.try_number} was granted to another container; end this process")
    raise TryFenced(f"try {ref.try_number} is over, or was submitted again; end this process")


async def silence(connection: AsyncConnection, tag: str) -> float:
    """Return the seconds since the try was intended, submitted, or renewed, whichever was last; infinite if unknown."""
    seconds = (await connection.execute(_SILENCE, {"tag": tag})).scalar_one_or_none()
    return math.inf if seconds is None else float(seconds)


async def was_renewed(connection: AsyncConnection, tag: str) -> bool:
    """Return whether a driver of the try has ever been granted its lease: before that none has started."""
    return bool((await connection.execute(_WAS_RENEWED, {"tag": tag})).scalar_one())


async def may_start(connection: AsyncConnection, tag: str, home_id: str) -> bool:
    """Return whether this home may still start the try: nobody has taken it over, ended it or cancelled it."""
    return bool((await connection.execute(_MAY_START, {"tag": tag, "home_id": home_id})).scalar_one())
