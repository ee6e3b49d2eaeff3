"""`POST /execution/store/asset/transaction`: several entries of an asset changed together, increments once."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field, StrictFloat, StrictInt

from store.runs.try_lock import Wanted
from store.state import entries
from store.state.transactions import Outcome, Transaction
from store.values import to_json
from watcher.api.execution.identity import Writing, answered
from watcher.api.execution.writing import task_write, warn_of_large
from watcher.api.parameters import BIGGEST, Body, SmallNumber, Text
from watcher.api.shapes.base import Shape

router = APIRouter(prefix="/store/asset", tags=["Execution: asset store"])
_Version = Annotated[int, Field(ge=0, le=BIGGEST)]
_Number = StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)]


class Changes(Body):
    """`asset`: its name or its uri. `reads`: versions as they were read, 0 for no entry. `refs`: keys of `set` with references."""

    asset: Text
    ordinal: SmallNumber
    """Which of the task instance's transactions on this asset it is; a later try that repeats it says the same."""
    reads: dict[str, _Version] = Field(default_factory=dict)
    sets: dict[str, Any] = Field(default_factory=dict, alias="set")
    increment: dict[str, _Number] = Field(default_factory=dict)
    delete: list[str] = Field(default_factory=list)
    refs: list[str] = Field(default_factory=list)


class Changed(Shape):
    """Of each changed key its version now, 0 when it has no entry; of each incremented one its value now, or null."""

    versions: dict[str, int]
    values: dict[str, Any]


@router.post("/transaction", response_model=Changed)
async def change_together(call: Writing, body: Changes, response: Response) -> Response:
    """All of it or nothing; 409 when a version that was read has moved on.

    Increments are applied once per (task instance, asset, ordinal), whatever the try: a repetition leaves them out.
    """
    transaction = Transaction(
        ordinal=body.ordinal,
        reads=body.reads,
        sets={key: to_json(value) for key, value in body.sets.items()},
        increments=body.increment,
        deletes=frozenset(body.delete),
        references=frozenset(body.refs),
    )
    wanted = Wanted(by="either", text=body.asset)
    async with task_write(call, wanted, action="transaction", keys=transaction.changes) as write:
        for key in transaction.changes:
            await write.refuse_watermark(key)
        for key, text in transaction.sets.items():
            warn_of_large(call, write, key, text)
        outcome = await entries.transact(
            call.context.backend,
            write.scope,
            transaction,
            task_instance_id=call.task_instance_id,
            writer=write.writer,
            connection=write.connection,
        )
        return await answered(write.connection, call, response, _as_json(outcome))


def _as_json(outcome: Outcome) -> str:
    """`Changed`, with values as they are stored: not every number survives being read and written again."""
    values = (f"{json.dumps(key)}:{text or 'null'}" for key, text in outcome.values.items())
    return f'{{"versions":{json.dumps(outcome.versions)},"values":{{{",".join(values)}}}}}'
