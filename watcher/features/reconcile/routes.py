"""`/api/v2/watchers/{name}/reconcile`: a source as it is now, compared with the events as they are now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import APIRouter
from pydantic import Field, model_validator

from store.fates import WORDS_OF_RECONCILE_BEFORE, Fate
from watcher.features.explain.answers import WatcherAnswer, answers, url_of
from watcher.features.explain.beginning import Beginning
from watcher.features.reconcile.comparison import REPORTED_TWICE, SEVEREST_FIRST, Difference
from watcher.features.reconcile.engine import Reconciler
from watcher.features.reconcile.evidence import RetentionPeriods
from watcher.features.reconcile.reconciliations import Reconciliation, Reconciliations
from watcher.features.reconcile.result import FoundDifference, Reconciled, ReconcileProgress, ReconcileRange
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import Body, Moment, example
from watcher.serving.api.routes.watchers import control_of
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Viewer
from watcher.triggerer.control import Control

router = APIRouter(prefix="/api/v2/watchers", tags=["Watcher"])
ROUTERS: Final = (router,)
MOST_NAMED: Final = 1000
"""The most differences that are named; each costs a question to the source."""


class ReconcileBody(Body):
    """Only items written from `since` on, and before `until`, are compared. At most `limit` differences are named."""

    model_config = example(since="2026-01-31T00:00:00Z", until="2026-02-01T00:00:00Z", limit=100)

    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=0, le=MOST_NAMED)] = 100

    @model_validator(mode="after")
    def _is_a_range(self) -> ReconcileBody:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("`since` must be earlier than `until`, which is exclusive")
        return self


class ReconciledItem(Shape):
    """An item with a difference. `state` is the difference's name, `state_before` its name before the list of states."""

    item: str
    state: Difference
    state_before: str
    sentence: str
    url: str


class Differences(Shape):
    """How many items differ in each way. `not_reported` and `reported_twice` are 0 where the guarantee holds.

    `reported_not_loaded`, `dequeued` and `gone_from_source` are the counts before the list of states: of what is queued,
    running, reported or not taken; of what is dropped; and of what the source lacks by now, cleaned and moved items among it.
    """

    not_reported: int
    reported_twice: int
    failed: int
    dropped: int
    rejected: int
    queued: int
    running: int
    not_taken: int
    reported: int
    replaced: int
    waiting: int
    missing: int
    cleaned: int
    moved: int
    unknown: int
    past_retention: int
    before_start: int
    reported_not_loaded: int
    dequeued: int
    gone_from_source: int


class ReconcileResult(Shape):
    """How many items the source has and the watcher selects, how many items events name, and how many of these are loaded.

    `exact` false: `why_not` says which numbers may be wrong.
    """

    source: int
    reported: int
    loaded: int
    differences: Differences
    items: Sequence[ReconciledItem]
    exact: bool
    why_not: str | None

    def counts(self) -> Sequence[tuple[str, int]]:
        """Return the differences that there are, by their present words, with their numbers."""
        return [(kind, count) for kind, count in self.differences if count and kind in SEVEREST_FIRST]


class ReconcileOperation(Shape):
    """A comparison. `listed` and `events` are how many items of the source and how many events were read so far."""

    id: str
    watcher: str
    state: Literal["running", "done", "failed"]
    started_at: datetime
    listed: int
    events: int
    error: str | None
    result: ReconcileResult | None


@router.post("/{name}/reconcile", status_code=202, responses=MAY_CONFLICT)
async def reconcile(context: Context, _: Viewer, name: str, body: ReconcileBody | None = None) -> ReconcileOperation:
    """Begin to compare a watcher's source as it is now with the events as they are now. Nothing changes.

    `GET` of the operation's id shows how far it has come, and the result. 409: one of this watcher is under way.
    """
    return await begin(context, name, body or ReconcileBody())


@router.get("/{name}/reconcile/{operation_id}")
async def get_reconcile(context: Context, _: Viewer, name: str, operation_id: str) -> ReconcileOperation:
    """Return how far a comparison has come, and its result. The process that carries it out knows it."""
    return await operation(context, name, operation_id)


async def begin(context: ApiContext, name: str, body: ReconcileBody) -> ReconcileOperation:
    control, limits = control_of(context), context.limits
    hosted = control.known(name)
    reconciler = Reconciler(
        database=context.database,
        clients=control.clients,
        retention=RetentionPeriods(
            events=timedelta(days=limits.event_retention_days), runs=timedelta(days=limits.run_retention_days)
        ),
        folder=context.of(Reconciliations).folder,
    )
    asked = ReconcileRange(since=body.since, until=body.until, limit=body.limit)

    async def compare(progress: ReconcileProgress) -> ReconcileResult:
        result = await reconciler.reconcile(hosted, asked, progress)
        items = [await _explained(context, control, name, each, result.beginning) for each in result.items]
        return _shown(result, items)

    return _of(context.of(Reconciliations).start(name, compare, control.clients))


async def operation(context: ApiContext, name: str, operation_id: str) -> ReconcileOperation:
    return _of(context.of(Reconciliations).get(name, operation_id))


def _of(made: Reconciliation[ReconcileResult]) -> ReconcileOperation:
    return ReconcileOperation.of(made, listed=made.progress.listed, events=made.progress.events)


def _shown(result: Reconciled, items: Sequence[ReconciledItem]) -> ReconcileResult:
    counts, before = Counter[str](result.differences), Counter[str]()
    for kind, count in result.differences.items():
        before[_word_before(kind)] += count
    renamed = {word: before[word] for word in {*WORDS_OF_RECONCILE_BEFORE.values()} - {*SEVEREST_FIRST}}
    return ReconcileResult(
        source=result.source,
        reported=result.reported,
        loaded=result.loaded,
        differences=Differences.model_validate({**{kind: counts[kind] for kind in SEVEREST_FIRST}, **renamed}),
        items=items,
        exact=not result.doubts,
        why_not="; ".join(result.doubts) or None,
    )


def _word_before(kind: Difference) -> str:
    """Return the word for a difference before the list of states."""
    return WORDS_OF_RECONCILE_BEFORE.get(kind, kind) if isinstance(kind, Fate) else kind


async def _explained(
    context: ApiContext, control: Control, name: str, found: FoundDifference, beginning: Beginning | None
) -> ReconciledItem:
    """Return the difference with the sentence that `explain` has for the item now."""
    [answer] = await answers(context, control, found.item, name, beginning)
    sentence = _SENTENCES[found.kind](answer) if found.kind in _SENTENCES else answer.verdict.sentence
    return ReconciledItem(
        item=found.item,
        state=found.kind,
        state_before=_word_before(found.kind),
        sentence=sentence,
        url=url_of(context, answer),
    )


def _not_reported(answer: WatcherAnswer) -> str:
    conditions = [finding["message"] for finding in answer.watcher.findings_now if finding["level"] != "info"]
    if conditions:
        return f"{answer.verdict.sentence}; a condition of exact detection is broken: {'; '.join(conditions)}"
    return answer.verdict.sentence


def _reported_twice(answer: WatcherAnswer) -> str:
    events = ", ".join(str(event.id) for event in answer.naming.events)
    return f"its present content was reported more than once, in the events {events}; {answer.verdict.sentence}"


_SENTENCES: Final = {Fate.NOT_REPORTED: _not_reported, REPORTED_TWICE: _reported_twice}
"""The sentences for differences that `explain` does not know of."""
