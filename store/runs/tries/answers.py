"""Responses to jobs' writes, kept so that a repeated request gets the response it missed and changes nothing again.

A client that gets no response sends the request again with the same `Idempotency-Key`
(https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/). The row is written in the transaction of
the effect, so there are both or neither. The lock on the task instance comes first: of two requests at once, the second
finds the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import bindparam, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningInsert

from store.database.dialects import upsert
from store.database.schema import database_now, execution_answer, task_instance, task_try
from store.errors import InvalidValue

KEPT_HOURS: Final = 24
NO_CONTENT: Final = 204
"""The status of a kept response, until `keep` adds a body."""

_a = execution_answer.c


@dataclass(frozen=True, kw_only=True)
class IdempotencyKey:
    """What identifies a repetition: its key, and the request (SHA-256 hex of method, address and body)."""

    key: str
    request: str

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of `reservation` that the request gives."""
        return {"answer_key": self.key, "answer_request": self.request}


class ReplayedResponse(Exception):
    """Not an error: this request took effect before, and this was its response.

    It ends the transaction that repeats it.
    """

    def __init__(self, status: int, body: str | None) -> None:
        super().__init__(f"answered with {status} before")
        self.status = status
        self.body = body


@cache
def reservation(dialect: str, *, own: bool) -> ReturningInsert[tuple[str]]:
    """Keep a response without content, unless the key has one; return a row if it had none.

    `own`: for a try of ours, which has a row; a try of another system has none.
    """
    of = task_try.c if own else task_instance.c
    names = {"task_instance_id": "task_instance_id", "try_number": "try_number"} if own else {"id": "task_instance_id"}
    here = (of[column] == bindparam(name) for column, name in names.items())
    values = {
        _a.task_instance_id: bindparam("task_instance_id", type_=_a.task_instance_id.type),
        _a.key: bindparam("answer_key", type_=_a.key.type),
        _a.request: bindparam("answer_request", type_=_a.request.type),
        _a.status: literal(NO_CONTENT),
        _a.created_at: database_now(),
    }
    new = upsert(execution_answer, dialect).from_select(list(values), select(*values.values()).where(*here))
    return new.on_conflict_do_nothing().returning(_a.key)


async def replay(connection: AsyncConnection, task_instance_id: str, request: IdempotencyKey) -> None:
    """Raise `ReplayedResponse`, or `InvalidValue` if the key stood for another request."""
    kept = select(_a.request, _a.status, _a.body).where(_a.task_instance_id == task_instance_id, _a.key == request.key)
    before = (await connection.execute(kept)).one_or_none()
    if before is None:
        return  # a clean-up has just removed it: nobody waits for that response any more
    if before.request != request.request:
        raise InvalidValue(
            "this Idempotency-Key was sent with another request (method, address or body); send each with a key of its own"
        )
    raise ReplayedResponse(before.status, before.body)


async def keep(connection: AsyncConnection, task_instance_id: str, request: IdempotencyKey | None, body: str) -> None:
    """Keep a body with the response; `body` is JSON."""
    if request is None:
        return
    this = update(execution_answer).where(_a.task_instance_id == task_instance_id, _a.key == request.key)
    await connection.execute(this.values(status=200, body=body))
