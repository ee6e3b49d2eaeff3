"""The overview: what needs attention, all watchers with a chart of their events, and the active and newest runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watchers
from store.catalog.watchers import WatcherRow
from store.database.paging import PageRequest
from store.features.pages import activity, run_history
from store.features.pages.run_causes import causes_of
from store.runs import jobs, run_lists
from store.runs.jobs import JobFilter
from store.runs.queue.queues import ACTIVE
from store.runs.run_lists import RunFilter
from watcher.features.pages.parts import FEW, ROWS
from watcher.features.pages.pictures.run_strip import run_strip
from watcher.features.pages.rendering import Pages
from watcher.serving.api.problems import read_groups

router = APIRouter(include_in_schema=False)
_GOOD: Final = frozenset({"running", "starting", "paused"})
_MOST_PAGES: Final = 10_000
_MOST_PROBLEMS: Final = 30
"""The problems that are listed unless all of them are requested."""
_MOST_JOBS: Final = 20
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


@router.get("/")
async def overview(
    view: Pages,
    page: Annotated[int, Query(ge=1, le=_MOST_PAGES)] = 1,
    everything: Annotated[bool, Query(alias="problems")] = False,
) -> Response:
    async with view.context.database.reading() as connection:
        rows = [view.context.process.health.merged(row) for row in await watchers.listed(connection)]
        active = await run_lists.latest(connection, RunFilter(states=ACTIVE), limit=FEW)
        recent = await run_lists.latest(connection, RunFilter(), limit=FEW)
        rows.sort(key=lambda row: (row.state in _GOOD, row.name))
        shown = rows[ROWS * (page - 1) : ROWS * page]
        causes = await causes_of(connection, [*active, *recent])
        reasons = view.context.process.health.reasons(None)
        listed = await read_groups(view.context, connection, rows, reasons)
        charts = await _charts(connection, shown)
        first_jobs = await jobs.listed(connection, JobFilter(), PageRequest(limit=_MOST_JOBS))
        past = await run_history.newest_of_jobs(connection, [job.dag_id for job in first_jobs.rows])
    now = datetime.now(UTC)
    problems = [each for each in listed if each.oldest.level != "info"]
    return view.page(
        "overview.html",
        problems=problems if everything else problems[:_MOST_PROBLEMS],
        all_problems=len(problems),
        watchers=shown,
        all_watchers=len(rows),
        charts=charts,
        jobs=first_jobs.rows,
        all_jobs=first_jobs.total,
        strips={job.dag_id: run_strip(past.get(job.dag_id, ()), now) for job in first_jobs.rows},
        active=active,
        recent=recent,
        causes=causes,
        page=page,
        following=page + 1 if len(rows) > ROWS * page else None,
    )


async def _charts(connection: AsyncConnection, rows: Sequence[WatcherRow]) -> Mapping[int, Chart]:
    """Return the charts of the watchers' assets, by the ids of the assets."""
    ids = {row.asset_id for row in rows}
    counts = await activity.by_hour(connection, ids)
    return {asset_id: Chart(counts=counts.get(asset_id, [0] * activity.HOURS)) for asset_id in ids}
