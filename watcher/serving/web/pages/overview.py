"""The first page: what needs attention, every watcher, and what runs."""

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
from store.runs import runs, waiting
from store.runs.queues import ACTIVE
from watcher.host.health import Health
from watcher.serving.web.addresses import path
from watcher.serving.web.bars import Chart
from watcher.serving.web.parts import FEW, ROWS
from watcher.serving.web.rendering import Pages
from watcher.serving.web.words import duration, moment

router = APIRouter(include_in_schema=False)
_GOOD: Final = frozenset({"running", "starting", "paused"})
_MOST_PAGES: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Something that a person should look at, and where."""

    name: str
    sentence: str
    page: str | None = None


@router.get("/")
async def overview(view: Pages, page: Annotated[int, Query(ge=1, le=_MOST_PAGES)] = 1) -> Response:
    async with view.context.database.reading() as connection:
        rows = [view.context.process.health.merged(row) for row in await watchers.listed(connection)]
        expected = await assets.expected(connection)
        failed = await waiting.failed_runs(connection)
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
    """Of the watchers' assets, by their ids."""
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


def _of_jobs(failed: Mapping[str, int]) -> Iterator[Attention]:
    for dag_id, count in failed.items():
        number = "1 failed run waits" if count == 1 else f"{count:,} failed runs wait"
        yield Attention(name=dag_id, sentence=f"{number} for a decision", page=path("runs", state="failed", job=dag_id))
