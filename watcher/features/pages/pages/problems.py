"""Acting on a problem and all like it: a page that names jobs, watchers and numbers, and the button that does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Request, Response

from store.errors import Conflict, NotFound
from watcher.features.pages.forms import Form, go_to
from watcher.features.pages.problem_words import AllLikeIt, action_on_all, shown_problem
from watcher.features.pages.rendering import Pages
from watcher.scheduling.problems.problem import ProblemGroup, StandingProblem
from watcher.serving.api import bulk_decisions
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import check_count
from watcher.serving.api.problems import problems_now
from watcher.serving.api.routes import watchers as api_of_watchers
from watcher.serving.api.sign_in.auth import Actor, Operator

router = APIRouter(prefix="/problems", include_in_schema=False)
MOST: Final = 1_000
"""The most runs, or watchers, that one click acts on."""
Text = Annotated[str, Query(max_length=1500)]


@router.get("/{kind}")
async def all_like_it(view: Pages, kind: str, subject: Text = "") -> Response:
    """Show what the button would do. Nothing changes."""
    group, action = await _standing(view.context, kind, subject)
    some = group.members[:MOST]
    counts = Counter(str(each.dag_id) for each in some if each.dag_id is not None)
    return view.page(
        "problem.html",
        problem=shown_problem(group),
        action=action,
        kind=kind,
        subject=subject,
        count=len(some),
        total=group.count,
        jobs=sorted(counts.items()),
        watchers=[each.subject["watcher"] for each in some if "watcher" in each.subject],
    )


@router.post("/{kind}")
async def act_on_all(request: Request, context: Context, actor: Operator, kind: str, form: Form) -> Response:
    """Act on what the page showed, if there is as much of it now."""
    group, action = await _standing(context, kind, form.text("subject"))
    some = group.members[:MOST]
    check_count(len(some), form.number("expected_count"), action.what)
    match kind:
        case "run_failed":
            await bulk_decisions.clear_failed(context, actor, _runs(some))
        case "bad_records":
            await bulk_decisions.resolve_records(context, actor, _runs(some))
        case _:
            await _poll(context, actor, [each.subject["watcher"] for each in some])
    return go_to(request)


async def _standing(context: ApiContext, kind: str, subject: str) -> tuple[ProblemGroup, AllLikeIt]:
    """Return the problems of the cause that this one has now. Raises `NotFound` if it is none any more."""
    for group in await problems_now(context, context.process.health.reasons(None)):
        if group.oldest.kind == kind and any(each.name == subject for each in group.members):
            if (action := action_on_all(group)) is None:
                break
            return group, action
    raise NotFound("this problem is no longer there, or there is nothing to do about all like it; look at the overview")


def _runs(problems: Sequence[StandingProblem]) -> Sequence[tuple[str, str]]:
    return [(each.subject["dag_id"], each.subject["run_id"]) for each in problems if "run_id" in each.subject]


async def _poll(context: ApiContext, actor: Actor, names: Sequence[str]) -> None:
    """Ask for a poll of each watcher. One that is paused or hosted nowhere is left alone, unless all are."""
    refused = []
    for name in names:
        try:
            await api_of_watchers.poll_now(context, actor, name)
        except Conflict as error:
            refused.append(str(error))
    if len(refused) == len(names):
        raise HTTPException(409, refused[0])
