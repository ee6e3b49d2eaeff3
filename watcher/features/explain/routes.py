"""`/api/v2/explain`: what became of one file or row, in every watcher that could have it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from store.fates import WORDS_OF_EXPLAIN_BEFORE, Fate
from watcher.features.explain.answers import WatcherAnswer, answers, url_of
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_MISS
from watcher.serving.api.parameters import storable
from watcher.serving.api.routes.watchers import control_of
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Viewer

router = APIRouter(prefix="/api/v2/explain", tags=["Watcher"])
ROUTERS: Final = (router,)
Item = Annotated[str, Query(min_length=1, max_length=4096), AfterValidator(storable)]


class ExplainedEvent(Shape):
    id: int
    timestamp: datetime


class ExplainedRun(Shape):
    """A run that has the item among its events. `table` and `commit` are what it wrote, as far as it said so."""

    dag_id: str
    run_id: str
    state: str
    reason: str | None
    table: str | None
    commit: str | None


class FateAtJob(Shape):
    """What became of the item's event at one job. `run` is the run that has it; null with `forgotten_at`: the clean-up has removed it.

    Events that are in no run have null in both.
    """

    dag_id: str
    state: Fate
    run: str | None
    ended_at: datetime | None
    forgotten_at: datetime | None


class ItemAnswer(Shape):
    """What became of the item in one watcher. `state_before` is the word for `state` before the list of states.

    `jobs` has what became of its event at each job; `state` is the most urgent of these: failed comes first, and
    loaded behind all that waits, runs or was dropped. It is empty where no event names the item's present content.
    """

    watcher: str
    asset: str
    state: Fate
    state_before: str
    jobs: Sequence[FateAtJob]
    sentence: str
    facts: dict[str, Any]
    events: Sequence[ExplainedEvent]
    runs: Sequence[ExplainedRun]
    url: str


class ExplainedItem(Shape):
    item: str
    answers: Sequence[ItemAnswer]


@router.get("", responses=MAY_MISS)
async def explain(context: Context, _: Viewer, item: Item, watcher: str | None = None) -> ExplainedItem:
    """Explain what became of a file or row: `item` is a URL, a key or path, an id, or a row's key as JSON.

    Each watcher that could have it answers. If more than fifty could, `watcher` has to name one.
    """
    told = await answers(context, control_of(context), item, watcher)
    return ExplainedItem(item=item, answers=[_shown(context, answer) for answer in told])


def _shown(context: ApiContext, answer: WatcherAnswer) -> ItemAnswer:
    row, verdict = answer.watcher, answer.verdict
    facts = dict(verdict.facts)
    if answer.naming.has_more:
        facts["more_events"] = True
    return ItemAnswer(
        watcher=row.name,
        asset=answer.asset,
        state=verdict.state,
        state_before=WORDS_OF_EXPLAIN_BEFORE.get(verdict.state, verdict.state.value),
        jobs=[FateAtJob.of(each, state=each.fate, run=each.run and each.run.run_id) for each in verdict.at_jobs],
        sentence=verdict.sentence,
        facts=facts,
        events=[ExplainedEvent.of(event) for event in answer.naming.events],
        runs=[ExplainedRun.of(each.run, table=each.table, commit=each.commit) for each in answer.runs],
        url=url_of(context, answer),
    )
