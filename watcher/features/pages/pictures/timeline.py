"""The timeline: runs as bars, a row for each job, and events as ticks, between two times. Places are percents of the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from store.features.pages.run_spans import JobInSpan, RunGroup
from watcher.features.pages.words import moment
from watcher.host.page_paths import path

Zoom: TypeAlias = Literal["day", "week"]
SPANS: Final[Mapping[Zoom, timedelta]] = {"day": timedelta(days=1), "week": timedelta(days=7)}
TICKS: Final[Mapping[Zoom, int]] = {"day": 144, "week": 168}
"""The parts in which events are counted: of ten minutes, and of an hour."""
BARS: Final = 360
"""The parts within which runs are drawn as one bar."""
_MARKS: Final[Mapping[Zoom, timedelta]] = {"day": timedelta(hours=4), "week": timedelta(days=1)}
_NARROWEST: Final = 0.25
_FAILED_NARROWEST: Final = 1.0
"""A failed run is seen from afar, however short it was."""
_EDGE: Final = 7.0
"""No hour is written so near to the left edge, in percent."""
_END: Final = 18.0
"""None so near to the right one, where the picture's end is written: on a phone it is 300 pixels wide."""


@dataclass(frozen=True, kw_only=True)
class HourMark:
    """A vertical line at a whole hour or day; `is_labelled` unless its text would stand over an edge."""

    at: datetime
    x: float
    is_labelled: bool


@dataclass(frozen=True, kw_only=True)
class RunBar:
    """Runs of one state that are drawn as one."""

    state: str
    x: float
    width: float
    page: str
    title: str

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """A job with its bars. Failures come last, so that nothing is drawn over them."""

    job: JobInSpan
    bars: Sequence[RunBar]


@dataclass(frozen=True, kw_only=True)
class EventTick:
    """The events of a part of the span. The part with most events has the full height."""

    x: float
    y: int
    height: int
    title: str


@dataclass(frozen=True, kw_only=True)
class TimeSpan:
    """What a timeline shows: from `since` to `until`."""

    zoom: Zoom
    until: datetime

    @property
    def since(self) -> datetime:
        return self.until - SPANS[self.zoom]

    @property
    def seconds(self) -> float:
        return SPANS[self.zoom].total_seconds()

    @property
    def edges(self) -> Sequence[datetime]:
        """The times between which events are counted."""
        step = SPANS[self.zoom] / TICKS[self.zoom]
        return [self.since + place * step for place in range(TICKS[self.zoom] + 1)]

    def x(self, at: datetime) -> float:
        """Return the time's place, within the span."""
        return round(min(max((at - self.since).total_seconds() / self.seconds, 0.0), 1.0) * 100, 2)


def hour_marks(span: TimeSpan) -> Sequence[HourMark]:
    """Return the whole hours or days (UTC) of the span."""
    step = _MARKS[span.zoom]
    at = span.since.replace(hour=0, minute=0, second=0, microsecond=0)
    marks = []
    while at <= span.until:
        if at >= span.since:
            x = span.x(at)
            marks.append(HourMark(at=at, x=x, is_labelled=_EDGE <= x <= 100 - _END))
        at += step
    return marks


def rows(span: TimeSpan, jobs: Sequence[JobInSpan], groups: Sequence[RunGroup]) -> Sequence[TimelineRow]:
    """Return a row for each job, in their order."""
    of_job: dict[str, list[RunGroup]] = {job.dag_id: [] for job in jobs}
    for group in sorted(groups, key=lambda each: each.state == "failed"):
        of_job[group.dag_id].append(group)
    return [TimelineRow(job=job, bars=[_bar(span, group) for group in of_job[job.dag_id]]) for job in jobs]


def _bar(span: TimeSpan, group: RunGroup) -> RunBar:
    narrowest = _FAILED_NARROWEST if group.state == "failed" else _NARROWEST
    x, end = span.x(group.began), span.x(group.ended)
    width = max(round(end - x, 2), narrowest)
    if group.runs == 1:
        page, what = path("runs", group.dag_id, group.run_id), group.run_id
    else:
        page, what = path("runs", state=group.state, job=group.dag_id), f"{group.runs:,} runs"
    until = "now" if group.ended >= span.until else moment(group.ended)
    title = f"{what}: {group.state}, {moment(group.began)} to {until}"
    return RunBar(state=group.state, x=min(x, 100 - width), width=width, page=page, title=title)


def ticks(span: TimeSpan, counts: Sequence[int], tallest: int = 20) -> Sequence[EventTick]:
    """Return a tick for each part of the span that has events, from their counts, the oldest first."""
    most = max(counts, default=0)
    step = SPANS[span.zoom] / max(len(counts), 1)
    return [
        EventTick(
            x=round(place * 100 / len(counts), 2),
            y=tallest - (height := max(3, round(count * tallest / most))),
            height=height,
            title=f"{count:,} {'event' if count == 1 else 'events'}, {moment(span.since + place * step)} to {moment(span.since + (place + 1) * step)}",
        )
        for place, count in enumerate(counts)
        if count
    ]
