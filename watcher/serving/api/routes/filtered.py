"""Actions on everything that a filter matches: clear runs, pause watchers. `PATCH /dags` pauses jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from store.fates import Fate
from watcher.serving.api.bulk_decisions import clear_all, clearable, configured_watchers, matching, pause_watchers
from watcher.serving.api.context import Context
from watcher.serving.api.decisions import LackingItems
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.filters import RunQuery
from watcher.serving.api.parameters import Body, Count, Text, example
from watcher.serving.api.routes.dags import ALL
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Operator

router = APIRouter(prefix="/api/v2")


class ClearMatchingBody(LackingItems):
    """Without `dry_run: false` nothing is cleared. With an `expected_count`, another count is 409."""

    model_config = example(dry_run=False, expected_count=12)

    dry_run: bool = True
    expected_count: Count | None = None


class ClearedRunsResponse(Shape):
    """How many runs were cleared, or with `dry_run` would be.

    `cleaned` counts the files of matching runs that `clean_source` has deleted, `superseded` those of which newer versions count. Runs
    that have succeeded and lack such files are left out, unless `include_cleaned` or `include_superseded` is given; others run
    without them.
    """

    dry_run: bool
    expected_count: int
    cleaned: int
    superseded: int


class PauseMatchingBody(Body):
    """Whether the watchers that match are paused. With an `expected_count`, another count of changes is 409."""

    model_config = example(paused=True, expected_count=3)

    paused: bool
    expected_count: Count | None = None


class PausedWatchersResponse(Shape):
    """The watchers that were paused or resumed, without those that were so already."""

    watchers: list[str]
    total_entries: int


@router.post("/dags/{dag_id}/dagRuns/clear", responses=MAY_CONFLICT, tags=["DagRun"])
async def clear_matching_runs(
    context: Context, actor: Operator, dag_id: str, query: Annotated[RunQuery, Query()], body: ClearMatchingBody
) -> ClearedRunsResponse:
    """Clear all runs that are over and match, of a job or with `~` of all jobs, the oldest first. At most 10,000 at a time."""
    which = query.filter(None if dag_id == ALL else dag_id)
    if body.dry_run:
        ids, lacking = await clearable(context, which, body.include)
        return _cleared(len(ids), lacking, dry_run=True)
    cleared = await clear_all(context, actor, which, body.expected_count, body.include)
    return _cleared(cleared.runs, cleared.lacking, dry_run=False)


def _cleared(count: int, lacking: Mapping[Fate, int], *, dry_run: bool) -> ClearedRunsResponse:
    return ClearedRunsResponse(
        dry_run=dry_run,
        expected_count=count,
        cleaned=lacking.get(Fate.CLEANED, 0),
        superseded=lacking.get(Fate.SUPERSEDED, 0),
    )


@router.patch("/watchers", responses=MAY_CONFLICT, tags=["Watcher"])
async def pause_matching_watchers(
    context: Context, actor: Operator, body: PauseMatchingBody, text: Text = "", state: Text | None = None
) -> PausedWatchersResponse:
    """Pause or resume all watchers whose name contains `text`, in this `state`."""
    rows = matching(await configured_watchers(context), text, state)
    names = [row.name for row in rows if row.paused != body.paused]
    await pause_watchers(context, actor, names, body.expected_count, paused=body.paused)
    return PausedWatchersResponse(watchers=names, total_entries=len(names))
