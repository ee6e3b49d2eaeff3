"""The pages of all watchers and of all jobs, in order of name, with filters that stand in the address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response

from store.catalog import watchers
from store.catalog.watchers import WatcherRow
from store.database.paging import PageRequest
from store.runs import jobs
from store.runs.jobs import JobFilter
from watcher.serving.api.waiting import waiting_jobs
from watcher.serving.web.parts import ROWS
from watcher.serving.web.rendering import Pages

router = APIRouter(include_in_schema=False)
After = Annotated[str | None, Query(max_length=1500)]
Text = Annotated[str, Query(max_length=250)]
_PAUSED: Final = {"active": False, "paused": True, None: None}


@router.get("/watchers")
async def all_watchers(
    view: Pages, after: After = None, text: Text = "", state: Annotated[str | None, Query(max_length=50)] = None
) -> Response:
    async with view.context.database.reading() as connection:
        rows = [view.context.process.health.merged(row) for row in await watchers.listed(connection)]
    named = [row for row in rows if text.strip().lower() in row.name.lower()]
    shown = [row for row in named if state in (None, row.state) and (after is None or row.name > after)]
    return view.page(
        "watchers.html",
        watchers=shown[:ROWS],
        following=_following([row.name for row in shown]),
        after=after,
        text=text,
        state=state,
        states=_counts(named),
    )


def _counts(rows: Sequence[WatcherRow]) -> Sequence[tuple[str, int]]:
    """Return how many watchers are in each state, in order of its name."""
    states = [row.state for row in rows]
    return [(state, states.count(state)) for state in sorted(set(states))]


@router.get("/jobs")
async def all_jobs(
    view: Pages, after: After = None, text: Text = "", state: Literal["active", "paused"] | None = None
) -> Response:
    async with view.context.database.reading() as connection:
        matching = await jobs.ids(connection, JobFilter(paused=_PAUSED[state]))
        names = [*_behind(matching, text, after)][: ROWS + 1]
        window = PageRequest(limit=ROWS, order_by=("dag_id",))
        rows = (await jobs.listed(connection, JobFilter(ids=names[:ROWS]), window)).rows
        shown = await waiting_jobs(connection, rows)
    return view.page("jobs.html", jobs=shown, following=_following(names), after=after, text=text, state=state)


def _behind(names: Sequence[str], text: str, after: str | None) -> Iterator[str]:
    return (name for name in sorted(names) if text.strip().lower() in name.lower() and (after is None or name > after))


def _following(names: Sequence[str]) -> str | None:
    """Return the last name of the part that is shown, if more follow."""
    return names[ROWS - 1] if len(names) > ROWS else None
