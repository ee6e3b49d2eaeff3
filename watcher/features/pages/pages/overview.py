"""The overview: what needs attention, watchers, jobs, and runs. It is as long for 400 watchers as for 25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Generic, TypeVar

from fastapi import APIRouter, Query, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watchers
from store.catalog.watchers import WatcherRow
from store.features.pages import activity, run_history
from store.features.pages.job_states import JobInState, states_of_jobs
from store.features.pages.run_causes import causes_of
from store.features.pages.run_history import PastRun
from store.runs import jobs, run_lists
from store.runs.jobs import JobFilter, JobRow
from store.runs.queue import waiting
from store.runs.queue.queues import ACTIVE
from store.runs.run_lists import RunFilter
from watcher.features.pages.parts import FEW
from watcher.features.pages.pictures.run_strip import RunStrip, run_strip, small_strip
from watcher.features.pages.problem_words import shown_problem
from watcher.features.pages.rendering import Pages
from watcher.serving.api.problems import read_groups

T = TypeVar("T")
router = APIRouter(include_in_schema=False)
_GOOD: Final = frozenset({"running", "starting", "paused"})
_MOST_PROBLEMS: Final = 30
"""The problems that are listed unless all of them are requested."""
_ALL_ARE_SHOWN: Final = 25
"""The most watchers, and jobs, of which every one has a row."""
_MOST_BAD: Final = 6
"""The rows of those that are not well, where not all are shown. Their number is a link to all of them."""
_FEW_RUNS: Final = 6
"""The runs that are listed where not all watchers and jobs are shown."""
_BAR_HEIGHT: Final = 20
_BAR_STEP: Final = 4
_LEAST_HEIGHT: Final = 2
"""The height of the lowest bar, which has to be visible."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rectangle of a chart, in the units of an inline SVG."""

    x: int
    y: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with one bar for each hour. The counts are ordered from the oldest."""

    counts: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def width(self) -> int:
        return _BAR_STEP * len(self.counts)

    @property
    def bars(self) -> Sequence[Bar]:
        """The bars. The highest count has the full height, and hours without events have no bar."""
        highest = max(self.counts, default=0)
        heights = [
            (hour, max(_LEAST_HEIGHT, round(count * _BAR_HEIGHT / highest)))
            for hour, count in enumerate(self.counts)
            if count
        ]
        return [Bar(x=_BAR_STEP * hour, y=_BAR_HEIGHT - height, height=height) for hour, height in heights]

    @property
    def sentence(self) -> str:
        """The chart's content as a sentence, for people who cannot see it."""
        return (
            f"{self.total:,} events in {len(self.counts)} hours, {self.counts[-1]:,} in the last" if self.counts else ""
        )


@dataclass(frozen=True, kw_only=True)
class ShownJob:
    """A job in a row: its state, its newest run, what waits in its queue, and its last runs."""

    job: JobRow
    state: str
    last: PastRun | None
    queued: int
    strip: RunStrip


@dataclass(frozen=True, kw_only=True)
class Some(Generic[T]):
    """Those of a kind that the page shows, and the states of all of them with their numbers."""

    shown: Sequence[T]
    states: Sequence[tuple[str, int]]
    total: int

    @property
    def is_all(self) -> bool:
        return len(self.shown) == self.total


@router.get("/")
async def overview(view: Pages, everything: Annotated[bool, Query(alias="problems")] = False) -> Response:
    async with view.context.database.reading() as connection:
        rows = [view.context.process.health.merged(row) for row in await watchers.listed(connection)]
        active = await run_lists.latest(connection, RunFilter(states=ACTIVE), limit=FEW // 2)
        recent = await run_lists.latest(connection, RunFilter(), limit=FEW)
        runs = [*active, *(run for run in recent if run.state not in ACTIVE)][:FEW]
        causes = await causes_of(connection, runs)
        reasons = view.context.process.health.reasons(None)
        listed = await read_groups(view.context, connection, rows, reasons)
        shown = some_watchers(rows)
        charts = await _charts(connection, shown.shown)
        shown_jobs = await _jobs(connection, datetime.now(UTC))
    problems = [each for each in listed if each.oldest.level != "info"]
    is_all = shown.is_all and shown_jobs.is_all
    return view.page(
        "overview.html",
        problems=[
            shown_problem(each) for each in (problems if everything else problems[: _MOST_PROBLEMS if is_all else FEW])
        ],
        all_problems=len(problems),
        watchers=shown,
        charts=charts,
        jobs=shown_jobs,
        runs=runs if is_all else runs[:_FEW_RUNS],
        causes=causes,
    )


def some_watchers(rows: Sequence[WatcherRow]) -> Some[WatcherRow]:
    """Return all watchers, first those that are not well; of many only these, and those that moved last."""
    bad = sorted((row for row in rows if row.state not in _GOOD), key=lambda row: row.name)
    good = [row for row in rows if row.state in _GOOD]
    states = sorted(Counter(row.state for row in rows).items())
    if len(rows) <= _ALL_ARE_SHOWN:
        return Some(shown=[*bad, *sorted(good, key=lambda row: row.name)], states=states, total=len(rows))
    moved = sorted((row for row in good if row.last_event_at is not None), key=_last_event, reverse=True)
    return Some(shown=[*bad[:_MOST_BAD], *moved[:FEW]], states=states, total=len(rows))


def _last_event(row: WatcherRow) -> datetime:
    return row.last_event_at or datetime.min.replace(tzinfo=UTC)


async def _jobs(connection: AsyncConnection, now: datetime) -> Some[ShownJob]:
    """Return all jobs; of many only those whose last run failed, and those that moved last."""
    all_jobs = await states_of_jobs(connection)
    chosen = some_jobs(all_jobs)
    is_all = len(chosen) == len(all_jobs)
    names = [each.dag_id for each in chosen]
    listed = await jobs.first(connection, JobFilter(ids=names), limit=max(len(names), 1), after=None)
    rows = {row.dag_id: row for row in listed}
    past = await run_history.newest_of_jobs(connection, names)
    queued = Counter[str]()
    for queue in await waiting.queues_of(connection, names):
        queued[queue.dag_id] += queue.queued
    strip = run_strip if is_all else small_strip
    shown = [
        ShownJob(
            job=rows[each.dag_id],
            state=each.state,
            last=next(reversed(past.get(each.dag_id, ())), None),
            queued=queued[each.dag_id],
            strip=strip(past.get(each.dag_id, ()), now),
        )
        for each in chosen
        if each.dag_id in rows
    ]
    return Some(shown=shown, states=sorted(Counter(each.state for each in all_jobs).items()), total=len(all_jobs))


def some_jobs(all_jobs: Sequence[JobInState]) -> Sequence[JobInState]:
    """Return which jobs are shown, those whose last run failed first."""
    bad = [each for each in all_jobs if each.state == "failed"]
    good = [each for each in all_jobs if each.state != "failed"]
    if len(all_jobs) <= _ALL_ARE_SHOWN:
        return [*bad, *good]
    newest = sorted(bad, key=lambda each: each.newest, reverse=True)
    return [*newest[:_MOST_BAD], *sorted(good, key=lambda each: each.newest, reverse=True)[:FEW]]


async def _charts(connection: AsyncConnection, rows: Sequence[WatcherRow]) -> Mapping[int, Chart]:
    """Return the charts of the watchers' assets, by the ids of the assets."""
    ids = {row.asset_id for row in rows}
    counts = await activity.by_hour(connection, ids)
    return {asset_id: Chart(counts=counts.get(asset_id, [0] * activity.HOURS)) for asset_id in ids}
