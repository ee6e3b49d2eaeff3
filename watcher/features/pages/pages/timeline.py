"""The timeline: the runs of each job and all events of a day or a week, by default up to now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Response

from store.database.paging import now_of
from store.features.pages import activity, run_spans
from watcher.features.pages.pictures.timeline import BARS, SPANS, TimeSpan, Zoom, hour_marks, rows, ticks
from watcher.features.pages.rendering import Pages

router = APIRouter(include_in_schema=False)
_MOST_JOBS: Final = 50


@router.get("/timeline")
async def timeline(
    view: Pages, zoom: Zoom = "day", until: Annotated[str | None, Query(max_length=40)] = None
) -> Response:
    end = None if until is None else _moment(until)
    async with view.context.database.reading() as connection:
        now = await now_of(connection)
        is_past = end is not None and end < now
        span = TimeSpan(zoom=zoom, until=end if end is not None and is_past else now)
        jobs = await run_spans.jobs_in(connection, span.since, span.until, limit=_MOST_JOBS + 1)
        shown = jobs[:_MOST_JOBS]
        apart = span.seconds / BARS
        names = [job.dag_id for job in shown]
        groups = await run_spans.groups_in(connection, names, span.since, span.until, apart=apart)
        counts = await activity.between(connection, span.edges)
        has_earlier = await run_spans.is_anything_before(connection, span.since)
    return view.page(
        "timeline.html",
        span=span,
        rows=rows(span, shown, groups),
        ticks=ticks(span, counts),
        events=sum(counts),
        failures=sum(job.failures for job in shown),
        marks=hour_marks(span),
        has_more=len(jobs) > _MOST_JOBS,
        most=_MOST_JOBS,
        is_past=is_past,
        earlier=_text(span.since) if has_earlier else None,
        later=_text(span.until + SPANS[zoom]) if is_past else None,
        ending=_text(span.until) if is_past else None,
    )


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
