"""`/api/v2/explain`: what became of one file or row, in every watcher that could have it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_MISS
from watcher.serving.api.explanations import WatcherAnswer, answers, url_of
from watcher.serving.api.parameters import storable
from watcher.serving.api.routes.watchers import control_of
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Viewer
from watcher.serving.api.verdicts import AnswerState

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


class ItemAnswer(Shape):
    """What became of the item in one watcher. `loaded`: a run that had it among its events has succeeded."""

    watcher: str
    asset: str
    state: AnswerState
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
        sentence=verdict.sentence,
        facts=facts,
        events=[ExplainedEvent.of(event) for event in answer.naming.events],
        runs=[ExplainedRun.of(each.run, table=each.table, commit=each.commit) for each in answer.runs],
        url=url_of(context, answer),
    )
