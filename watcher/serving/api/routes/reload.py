"""`/api/v2/reload`: the daemon reads its configuration again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio
from fastapi import APIRouter, Request

from config.errors import Problem
from store.errors import Conflict
from store.processes import triggerers
from store.processes.triggerers import RunningConfiguration
from watcher.configuration.reload_outcome import FOLLOWED_WITHIN, ReloadRefused, Result
from watcher.serving.api.context import ApiContext, Context, of_app
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.errors import ErrorResponse
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Admin

router = APIRouter(prefix="/api/v2", tags=["Monitor"])
_CHECK_INTERVAL = 0.1


class Names(Shape):
    added: Sequence[str]
    changed: Sequence[str]
    removed: Sequence[str]


class RunningProcess(Shape):
    """A process and the configuration it runs. `is_current`: that is the configuration of this answer."""

    host: str
    pid: int
    roles: Sequence[str]
    configuration: str | None
    is_current: bool


class ReloadResponse(Shape):
    """The changes of this reload, which are none if another reload was faster.

    The rest is that of the reload, or start, that applied the file, also if it was faster. `decisions` says what people must
    decide about a watcher whose selection changed: until then it is blocked. `dropped` counts the queued events that were
    dropped with their jobs, and so does `dequeued`, its word before. `kept` counts by job the queued events that its
    schedule does not wait for: they go with its next run. Of the events that were stored before a job was first seen,
    `caught_up` counts by job those of its assets that it gets, because of `catchup`, and `left_out` those that are never its own.
    `cleaned` counts by job the files of the former that it does not get, because `clean_source` has deleted them.
    """

    result: Result
    hash: str
    assets: Names
    watchers: Names
    connections: Names
    aliases: Names
    jobs: Names
    dropped: int
    dequeued: int
    kept: Mapping[str, int]
    caught_up: Mapping[str, int]
    left_out: Mapping[str, int]
    cleaned: Mapping[str, int]
    decisions: Mapping[str, str]
    processes: Sequence[RunningProcess]


@router.post("/reload", response_model=ReloadResponse, responses=MAY_CONFLICT)
async def reload(request: Request, context: Context, actor: Admin) -> Any:
    """Read the configuration again and apply it. 422 lists everything that is wrong with it, and then nothing has changed."""
    if context.process.reload is None:
        raise Conflict("this process has no configuration to reload; start it with `watcher run`")
    try:
        outcome = await context.process.reload(actor.name)
    except ReloadRefused as refused:
        return ErrorResponse({"detail": [_problem_json(problem) for problem in refused.problems]}, 422)
    running = [
        RunningProcess.of(each, roles=sorted(each.roles), is_current=each.configuration == outcome.hash)
        for each in await _processes(context, outcome.hash)
    ]
    counts = {"dropped": outcome.dequeued, "dequeued": outcome.dequeued, "kept": outcome.kept}
    counts |= {"caught_up": outcome.caught_up, "left_out": outcome.left_out, "cleaned": outcome.cleaned}
    decisions = await _decisions(await of_app(request), outcome.watchers)  # the context of now knows the new watchers
    content = {"result": outcome.result, "hash": outcome.hash, "decisions": decisions, **counts}
    return ReloadResponse.model_validate({**content, **outcome.changes.json, "processes": running})


def _problem_json(problem: Problem) -> Mapping[str, Any]:
    where = {"file": problem.file, "line": problem.line}
    loc = [problem.file, *(problem.path.split(".") if problem.path else ())]
    return {"type": "configuration", "loc": loc, "msg": problem.message, **where}


async def _decisions(context: ApiContext, watchers: Iterable[str]) -> Mapping[str, str]:
    control = context.watchers.control
    return {} if control is None else await control.undecided(watchers)


async def _processes(context: ApiContext, hash_: str) -> Sequence[RunningConfiguration]:
    """Return the configuration of each process, after all have followed or have had the time to."""
    until = anyio.current_time() + FOLLOWED_WITHIN
    while True:
        async with context.database.reading() as connection:
            running = await triggerers.configurations(connection)
        if all(each.configuration == hash_ for each in running) or anyio.current_time() > until:
            return running
        await anyio.sleep(_CHECK_INTERVAL)
