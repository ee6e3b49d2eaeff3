"""The timeline: what was wrong, the runs of each job and all events of an hour, a day or a week, by default up to now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Response

from store.catalog import assets
from store.catalog.assets import AssetRow
from store.database.paging import now_of
from store.features.pages import activity, run_spans, watcher_spans
from watcher.features.pages.pictures.timeline import (
    BARS,
    MOST_ROWS,
    SPANS,
    TimelineRow,
    TimeSpan,
    Zoom,
    hour_marks,
    in_words_again,
    job_rows,
    late_row,
    ticks,
    watcher_rows,
    with_shapes,
    worst_first,
)
from watcher.features.pages.rendering import Pages
from watcher.features.problems.lateness import late_assets
from watcher.features.problems.reading import of_late_asset
from watcher.host.page_paths import path
from watcher.host.states import look_of

router = APIRouter(include_in_schema=False)
_BAD: Final = [
    state
    for state in ("failing", "blocked", "unassigned", "unstable", "waiting", "paused")
    if look_of(state, "watcher").color == "bad"
]
"""The states of a watcher that somebody must look at."""


@router.get("/timeline")
async def timeline(
    view: Pages, zoom: Zoom = "day", until: Annotated[str | None, Query(max_length=40)] = None
) -> Response:
    end = None if until is None else _moment(until)
    async with view.context.database.reading() as connection:
        now = await now_of(connection)
        is_past = end is not None and end < now
        span = TimeSpan(zoom=zoom, until=end if end is not None and is_past else now)
        since, apart = span.since, span.seconds / BARS
        watchers = await watcher_spans.watchers_in(connection, since, span.until, bad=_BAD, limit=MOST_ROWS)
        names = [watcher.name for watcher in watchers]
        states = await watcher_spans.states_in(connection, names, since, span.until, apart=apart)
        expected = await assets.expected(connection)
        jobs = await run_spans.jobs_in(connection, since, span.until, limit=MOST_ROWS)
        again = await run_spans.recovered_in(connection, since, span.until)
        dag_ids = [job.dag_id for job in jobs]
        groups = await run_spans.groups_in(connection, dag_ids, since, span.until, apart=apart)
        failed = await run_spans.failed_tries_in(
            connection, [job.dag_id for job in again], since, span.until, apart=apart
        )
        counts = await activity.between(connection, span.edges)
        has_earlier = await run_spans.is_anything_before(connection, since)
    late = _late(span, expected, now)
    rows = worst_first([*watcher_rows(span, watchers, states), *late, *job_rows(span, jobs, groups, again, failed)])
    shown = rows[:MOST_ROWS]
    total = Counter(watcher=watchers[0].total if watchers else 0, asset=len(late), job=jobs[0].total if jobs else 0)
    recovered = sum(job.runs for job in again)
    return view.page(
        "timeline.html",
        span=span,
        rows=with_shapes(shown),
        ticks=ticks(span, counts),
        events=sum(counts),
        failures=sum(job.failures for job in jobs),
        recovered=in_words_again(recovered) if recovered else None,
        total=total,
        more=total - Counter(row.kind for row in shown),
        marks=hour_marks(span),
        most=MOST_ROWS,
        is_past=is_past,
        earlier=_text(since) if has_earlier else None,
        later=_text(span.until + SPANS[zoom]) if is_past else None,
        ending=_text(span.until) if is_past else None,
    )


def _late(span: TimeSpan, expected: Sequence[AssetRow], now: datetime) -> Sequence[TimelineRow]:
    """Return the rows of the assets that are late now and were so within the span, those first that have been so for longest."""
    pages = {asset.name: path("assets", asset.id) for asset in expected}
    problems = [*(of_late_asset(asset, now) for asset in expected if asset.is_late), *late_assets(expected, now)]
    since = {(problem.since, problem.name): problem.message for problem in problems if problem.since is not None}
    first: dict[str, tuple[datetime, str]] = {}
    for (at, name), message in sorted(since.items()):
        first.setdefault(name, (at, message))
    return [late_row(span, name, pages[name], at, message) for name, (at, message) in first.items() if at < span.until]


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str) -> datetime:
    """Return a time of the address, of years in which a week before it is still a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise HTTPException(422, f"until is not a time: {text!r}; write it like 2026-01-31T06:00:00Z")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9000
