"""What is wrong now, as this process knows it: why it is not ready, and the one list of problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.suspects import suspects
from store.catalog.watchers import WatcherRow
from store.database import configuration_lock, migrations
from store.database.paging import now_of
from store.errors import SchemaOutdated
from store.processes import triggerers
from watcher.host.health import PROBE_DEADLINE
from watcher.installed import resolve
from watcher.scheduling.problems.problem import ProblemGroup, grouped
from watcher.scheduling.problems.sources import ProblemsLook, ProblemsOf, of_process, read_problems
from watcher.serving.api.context import ApiContext
from watcher.serving.api.errors import UNAVAILABLE

_ANOTHER_APPLIED: Final = (
    "this process runs another configuration than the applied one, and hosts only what both have in common; give it the same "
    "file, or apply its own with `watcher reload` or `watcher run --apply`"
)


async def problems_now(context: ApiContext, reasons: Sequence[str]) -> Sequence[ProblemGroup]:
    """Return what is wrong now, the worst first; `reasons` are those of `not_ready`."""
    if context.process.health.starts_since is not None:
        return _while_starting(context)
    async with context.database.reading(PROBE_DEADLINE) as connection:
        rows = await suspects(connection, context.process.health.suspects)
        return await read_groups(context, connection, rows, reasons)


async def read_groups(
    context: ApiContext, connection: AsyncConnection, rows: Sequence[WatcherRow], reasons: Sequence[str]
) -> Sequence[ProblemGroup]:
    """Return what is wrong now, the worst first; `rows` are the configured watchers, at least those that may have a problem."""
    health = context.process.health
    if health.starts_since is not None:
        return _while_starting(context)
    readers: list[ProblemsOf] = [resolve(path) for path in context.features.paths("problems").values()]
    merged = [health.merged(row) for row in rows]
    now = await now_of(connection)
    look = ProblemsLook(connection=connection, now=now, planners=context.planners, rows=merged)
    stored = await read_problems(look, readers)
    return grouped([*of_process(health, reasons), *stored])


def _while_starting(context: ApiContext) -> Sequence[ProblemGroup]:
    """Return that the process starts and nothing else, which nobody can judge until everything has started."""
    health = context.process.health
    return grouped(problem for problem in of_process(health, health.reasons(None)) if problem.kind == "not_ready")


async def not_ready(context: ApiContext) -> list[str]:
    """Return the reasons why this process is not ready."""
    return context.process.health.reasons(context.database.outage) or await _stored_reasons(context)


async def _stored_reasons(context: ApiContext) -> list[str]:
    """Return the reasons in the database why the process is not ready."""
    try:
        await migrations.check(context.database, PROBE_DEADLINE)
        async with context.database.reading(PROBE_DEADLINE) as connection:
            applied = await configuration_lock.applied_hash(connection)
            keys = await triggerers.published_keys(connection)
    except SchemaOutdated as error:
        return [str(error)]
    except UNAVAILABLE as error:
        return [f"the database does not answer: {error}"]
    if context.process.configuration_hash not in {None, applied}:
        return [_ANOTHER_APPLIED]
    if (
        keys is not None
        and context.sign_in.signing_keys is not None
        and keys.digests != context.sign_in.signing_keys.digests
    ):
        sentence = "signs jobs' tokens with another list of secrets; set the same settings.api.secret in all processes and restart them"
        return [f"the process {keys.pid} on {keys.host} {sentence}"]
    return []
