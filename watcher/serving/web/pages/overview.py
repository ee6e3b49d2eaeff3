"""The overview: what needs attention, all watchers with a chart of their events, and the active and newest runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets, watchers
from store.catalog.assets import AssetRow
from store.catalog.watchers import WatcherRow
from store.detection import activity
from store.runs import bad_records, runs, waiting
from store.runs.queues import ACTIVE
from store.runs.runs import RunRow
from watcher.host.health import Health
from watcher.serving.web.addresses import path
from watcher.serving.web.parts import FEW, ROWS
from watcher.serving.web.rendering import Pages
from watcher.serving.web.words import duration, moment

router = APIRouter(include_in_schema=False)
_GOOD: Final = frozenset({"running", "starting", "paused"})
_MOST_PAGES: Final = 10_000
_BAR_HEIGHT: Final = 20
_BAR_STEP: Final = 4
_LEAST_HEIGHT: Final = 2
"""The height of the lowest bar, which has to be visible."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Something that needs a person's attention, and its page."""

    name: str
    sentence: str
    page: str | None = None


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
async def overview(view: Pages, page: Annotated[int, Query(ge=1, le=_MOST_PAGES)] = 1) -> Response:
    async with view.context.database.reading() as connection:
        rows = [view.context.process.health.merged(row) for row in await watchers.listed(connection)]
        expected = await assets.expected(connection)
        failed = await waiting.failed_runs(connection)
        unresolved = await bad_records.unresolved(connection, FEW)
        active = await runs.latest(connection, limit=FEW, states=ACTIVE)
        recent = await runs.latest(connection, limit=FEW)
        rows.sort(key=lambda row: (row.state in _GOOD, row.name))
        shown = rows[ROWS * (page - 1) : ROWS * page]
        charts = await _charts(connection, shown)
    attention = [
        *_of_health(view.context.process.health),
        *_of_watchers(rows),
        *_of_assets(expected),
        *_of_jobs(failed),
        *_of_bad_records(unresolved),
    ]
    return view.page(
        "overview.html",
        attention=attention,
        watchers=shown,
        all_watchers=len(rows),
        charts=charts,
        active=active,
        recent=recent,
        page=page,
        following=page + 1 if len(rows) > ROWS * page else None,
    )


async def _charts(connection: AsyncConnection, rows: Sequence[WatcherRow]) -> Mapping[int, Chart]:
    """Return the charts of the watchers' assets, by the ids of the assets."""
    ids = {row.asset_id for row in rows}
    counts = await activity.by_hour(connection, ids)
    return {asset_id: Chart(counts=counts.get(asset_id, [0] * activity.HOURS)) for asset_id in ids}


def _of_health(health: Health) -> Iterator[Attention]:
    for sentence in [*health.reasons(None), *health.warnings()]:
        yield Attention(name="this process", sentence=sentence)


def _of_watchers(rows: Sequence[WatcherRow]) -> Iterator[Attention]:
    for row in rows:
        if row.error is not None and row.state not in _GOOD:
            yield Attention(name=row.name, sentence=row.error, page=path("watchers", row.name))


def _of_assets(expected: Sequence[AssetRow]) -> Iterator[Attention]:
    for asset in expected:
        if asset.is_late and asset.expect_every is not None:
            last = (
                "never had an event"
                if asset.last_event_at is None
                else f"had its last event {moment(asset.last_event_at)}"
            )
            sentence = f"{last}; one is expected every {duration(asset.expect_every)}"
            yield Attention(name=asset.name, sentence=sentence, page=path("assets", asset.id))


def _of_bad_records(unresolved: Sequence[RunRow]) -> Iterator[Attention]:
    for run in unresolved:
        yield Attention(name=run.dag_id, sentence=bad_records.sentence(run), page=path("runs", run.dag_id, run.run_id))


def _of_jobs(failed: Mapping[str, int]) -> Iterator[Attention]:
    for dag_id, count in failed.items():
        number = "1 failed run waits" if count == 1 else f"{count:,} failed runs wait"
        yield Attention(name=dag_id, sentence=f"{number} for a decision", page=path("runs", state="failed", job=dag_id))
