"""The pages of all watchers and of all jobs, with filters that stand in the address, and actions on all that match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import APIRouter, HTTPException, Query, Request, Response

from store.catalog.watchers import WatcherRow
from store.features.pages import run_history
from store.features.pages.job_states import states_of_jobs
from store.runs import jobs
from store.runs.jobs import JobFilter
from store.runs.queue import waiting
from watcher.features.pages.forms import Form, FormFields, go_to
from watcher.features.pages.parts import ROWS
from watcher.features.pages.pictures.run_strip import strips_of
from watcher.features.pages.rendering import Pages
from watcher.serving.api.bulk_decisions import configured_watchers, matching, pause_watchers
from watcher.serving.api.context import Context
from watcher.serving.api.decisions import pause
from watcher.serving.api.sign_in.auth import Operator
from watcher.serving.api.waiting import waiting_jobs

router = APIRouter(include_in_schema=False)
After = Annotated[str | None, Query(max_length=1500)]
Text = Annotated[str, Query(max_length=250)]
_FEW_JOBS: Final = 2
"""The jobs of an asset whose runs stand in a row."""
JobState: TypeAlias = Literal["active", "paused", "running", "failed", "waiting"]
"""`active` are those that are not paused, whatever their runs do."""
_PAUSED: Final[Mapping[str | None, bool | None]] = {"active": False, "paused": True, None: None}


@router.get("/watchers")
async def all_watchers(
    view: Pages, after: After = None, text: Text = "", state: Annotated[str | None, Query(max_length=50)] = None
) -> Response:
    named = matching(await configured_watchers(view.context), text, None)
    all_shown = matching(named, text, state)
    shown = [row for row in all_shown if after is None or row.name > after]
    async with view.context.database.reading() as connection:
        jobs_of = await waiting.ids_by_watcher(connection, [row.name for row in shown[:ROWS]])
        names = {name for of_watcher in jobs_of.values() for name in of_watcher[:_FEW_JOBS]}
        past = await run_history.newest_of_jobs(connection, names)
    now = datetime.now(UTC)
    return view.page(
        "watchers.html",
        watchers=shown[:ROWS],
        jobs_of=jobs_of,
        few_jobs=_FEW_JOBS,
        strips=strips_of(names, past, now),
        following=_following([row.name for row in shown]),
        after=after,
        text=text,
        state=state,
        states=_counts(named),
        paused=[row.paused for row in all_shown],
    )


@router.post("/watchers")
async def pause_all_watchers(request: Request, context: Context, actor: Operator, form: Form) -> Response:
    """Pause or resume the watchers that match the filter, if there are as many as the page showed."""
    text, state, is_paused = form.text("text", ""), form.text("state", "") or None, _is_pause(form)
    rows = matching(await configured_watchers(context), text, state)
    names = [row.name for row in rows if row.paused != is_paused]
    await pause_watchers(context, actor, names, form.number("expected_count"), paused=is_paused)
    return go_to(request, "watchers", text=text or None)


def _is_pause(form: FormFields) -> bool:
    action = form.text("action")
    if action not in {"pause", "resume"}:
        raise HTTPException(422, f"action is neither pause nor resume: {action[:40]!r}")
    return action == "pause"


def _counts(rows: Sequence[WatcherRow]) -> Sequence[tuple[str, int]]:
    """Return how many watchers are in each state, in order of its name."""
    states = [row.state for row in rows]
    return [(state, states.count(state)) for state in sorted(set(states))]


@router.get("/jobs")
async def all_jobs(view: Pages, after: After = None, text: Text = "", state: JobState | None = None) -> Response:
    async with view.context.database.reading() as connection:
        states = {each.dag_id: each.state for each in await states_of_jobs(connection)}
        is_of_runs = state not in _PAUSED
        names = [dag_id for dag_id, of_job in states.items() if of_job == state] if is_of_runs else None
        matching_jobs = replace(_jobs(text, None if is_of_runs else state), ids=names)
        rows = await jobs.first(connection, matching_jobs, limit=ROWS + 1, after=after)
        count = await jobs.count(connection, matching_jobs)
        shown = await waiting_jobs(connection, rows[:ROWS], view.context.planners)
        past = await run_history.newest_of_jobs(connection, [job.dag_id for job in rows[:ROWS]])
    now = datetime.now(UTC)
    return view.page(
        "jobs.html",
        jobs=shown,
        strips=strips_of([each.job.dag_id for each in shown], past, now),
        following=_following([job.dag_id for job in rows]),
        after=after,
        text=text,
        state=state,
        states=states,
        counts=sorted(Counter(states.values()).items()),
        count=count,
    )


@router.post("/jobs")
async def pause_all_jobs(request: Request, context: Context, actor: Operator, form: Form) -> Response:
    """Pause or resume the jobs that match the filter, if there are as many as the page showed."""
    text, state, is_paused = form.text("text", ""), form.text("state", "") or None, _is_pause(form)
    if state not in _PAUSED:
        raise HTTPException(422, f"no job has the state {str(state)[:40]!r}; it is active or paused")
    async with context.database.reading() as connection:
        names = await jobs.ids(connection, _jobs(text, state))
    await pause(context, actor, names, paused=is_paused, expected_count=form.number("expected_count"))
    return go_to(request, "jobs", text=text or None)


def _jobs(text: str, state: str | None) -> JobFilter:
    return JobFilter(paused=_PAUSED[state], id_contains=text.strip() or None)


def _following(names: Sequence[str]) -> str | None:
    """Return the last name of the part that is shown, if more follow."""
    return names[ROWS - 1] if len(names) > ROWS else None
