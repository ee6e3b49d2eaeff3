"""Decisions about everything that a filter matches, if it matches as many as the person saw: another count is 409."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fastapi import HTTPException

from store.catalog import watchers
from store.catalog.watchers import WatcherRow
from store.fates import Fate
from store.processes import audit
from store.runs import run_lists
from store.runs.actions import decisions
from store.runs.actions.decisions import ClearedRuns
from store.runs.run_lists import RunFilter
from store.runs.tries import bad_records, changed_items
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext
from watcher.serving.api.decisions import check_count
from watcher.serving.api.sign_in.auth import Actor
from watcher.serving.api.writes import new_write_id

MOST: Final = 10_000
"""The most runs that one request clears."""
_AT_ONCE: Final = 1_000


async def clearable(
    context: ApiContext, which: RunFilter, include: Collection[Fate] = ()
) -> tuple[Sequence[int], Mapping[Fate, int]]:
    """Return the matching runs that can be cleared: those that are over, the oldest first. Raise 422 for more than `MOST`.

    Those that have succeeded and would lack items are left out, unless the fates of these are in `include`. All items that
    matching runs lack are counted by their fates.
    """
    async with context.database.reading() as connection:
        ids = await run_lists.clearable(connection, which, limit=MOST + 1)
        if len(ids) > MOST:
            raise HTTPException(422, f"more than {MOST:,} runs match; narrow the filter, and clear them in parts")
        lacking = await changed_items.lacking(connection, context.item_hooks, ids, include, lock=False)
    return [number for number in ids if number not in lacking.refused], lacking.counts


async def clear_all(
    context: ApiContext, actor: Actor, which: RunFilter, expected_count: int | None, include: Collection[Fate] = ()
) -> ClearedRuns:
    """Clear the matching runs that are over. A run that somebody else clears meanwhile is left alone.

    So are those that have succeeded and would lack items whose fates are not in `include`.
    """
    ids, lacking = await clearable(context, which, include)
    check_count(len(ids), expected_count, "runs")
    cleared = 0
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        async with context.database.transaction() as connection:
            done = await decisions.clear_over(connection, some, item_hooks=context.item_hooks, include=include)
            target = which.dag_id if which.dag_id is not None else "~"
            await audit.record(connection, actor.name, "run.clear", target, {"runs": done.runs}, new_write_id())
        cleared += done.runs
    context.hint(Hint(what="tries"))
    return ClearedRuns(runs=cleared, lacking=lacking)


async def clear_failed(context: ApiContext, actor: Actor, names: Sequence[tuple[str, str]]) -> int:
    """Clear those of these runs, by job and id, that are failed now, in one transaction. Return how many that were."""
    async with context.database.transaction() as connection:
        ids = await run_lists.failed_of(connection, names)
        done = await decisions.clear_over(connection, ids, item_hooks=context.item_hooks)
        await audit.record(connection, actor.name, "run.clear", _target(names), {"runs": done.runs}, new_write_id())
    context.hint(Hint(what="tries"))
    return done.runs


async def resolve_records(context: ApiContext, actor: Actor, names: Sequence[tuple[str, str]]) -> None:
    """Resolve the bad records of these runs, by job and id, as far as they are unresolved, in one transaction."""
    async with context.database.transaction() as connection:
        for dag_id, run_id in sorted(names):
            if await bad_records.resolve(connection, dag_id, run_id):
                await audit.record(connection, actor.name, "run.resolve", dag_id, {"run_id": run_id}, new_write_id())


def _target(names: Sequence[tuple[str, str]]) -> str:
    jobs = {dag_id for dag_id, _ in names}
    return min(jobs) if len(jobs) == 1 else "~"


def matching(rows: Sequence[WatcherRow], text: str, state: str | None) -> Sequence[WatcherRow]:
    """Return the watchers whose name contains the text, whatever the case, in this state (None: in any)."""
    return [row for row in rows if text.strip().lower() in row.name.lower() and state in (None, row.state)]


async def configured_watchers(context: ApiContext) -> Sequence[WatcherRow]:
    """Return all configured watchers in order of name, with newer facts about those that this process hosts."""
    async with context.database.reading() as connection:
        return [context.process.health.merged(row) for row in await watchers.listed(connection)]


async def pause_watchers(
    context: ApiContext, actor: Actor, names: Sequence[str], expected_count: int | None, *, paused: bool
) -> None:
    """Pause or resume these configured watchers. Raises `Conflict`, `NotFound`."""
    check_count(len(names), expected_count, "watchers")
    action = "watcher.pause" if paused else "watcher.resume"
    async with context.database.transaction() as connection:
        for name in names:
            await watchers.set_paused(connection, name, paused=paused)
            await audit.record(connection, actor.name, action, name, write_id=new_write_id())
    if names:
        context.hint(Hint(what="watchers", names=frozenset(names)))
