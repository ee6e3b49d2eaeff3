"""The timeline: watchers that did not run, late assets, runs as bars and events as ticks, between two times.

Places are percents of the width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from store.features.pages.run_spans import FailedTries, JobInSpan, RecoveredJob, RunGroup
from store.features.pages.watcher_spans import StateGroup, WatcherInSpan
from watcher.features.pages.words import duration, moment, shortened, visible
from watcher.host.page_paths import path
from watcher.host.states import Color, StateLook, Subject, look_of

Zoom: TypeAlias = Literal["hour", "day", "week"]
SPANS: Final[Mapping[Zoom, timedelta]] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
TICKS: Final[Mapping[Zoom, int]] = {"hour": 60, "day": 144, "week": 168}
"""The parts in which events are counted: of a minute, of ten minutes, and of an hour."""
BARS: Final = 360
"""The parts within which runs are drawn as one bar."""
MOST_ROWS: Final = 50
MOST_LINKS: Final = 250
"""The bars that have a link and a sentence of their own, the worst first. The others of a row are one shape for each state."""
_LABELS: Final[Mapping[Zoom, timedelta]] = {
    "hour": timedelta(minutes=10),
    "day": timedelta(hours=1),
    "week": timedelta(days=1),
}
_MARKS: Final[Mapping[Zoom, timedelta]] = {
    "hour": timedelta(minutes=10),
    "day": timedelta(hours=4),
    "week": timedelta(days=1),
}
"""The steps of the labels, and of those that have a line and are written on a phone, too."""
_NARROWEST: Final = 0.25
_FAILED_NARROWEST: Final = 1.0
"""A failed run is seen from afar, however short it was."""
_EDGE: Final = 7.0
"""No hour is written so near to the left edge, in percent."""
_END: Final = 18.0
"""None so near to the right one, where the picture's end is written: on a phone it is 300 pixels wide."""
_WIDE_EDGE: Final = 2.0
_WIDE_END: Final = 5.0
"""The same where the picture is wide."""
_CAPPED_AFTER: Final = timedelta(days=1)
"""How long a state stands for what is not recorded."""
_SENTENCE: Final = 200
_WORST: Final[Sequence[Color]] = ("bad", "warn")
_SHAPES: Final = 1000
_TOUCHING: Final = 4
"""Bars that are so near to each other, in thousandths of the width, are one shape."""


@dataclass(frozen=True, kw_only=True)
class HourMark:
    """A time on the axis; `is_labelled` unless its text would stand over an edge."""

    at: datetime
    x: float
    is_labelled: bool
    """It is labelled however narrow the picture is."""
    is_labelled_if_wide: bool
    has_line: bool


@dataclass(frozen=True, kw_only=True)
class TimelineBar:
    """Times in one state that are drawn as one."""

    state: str
    x: float
    width: float
    page: str
    title: str
    of: Subject = "other"

    @property
    def look(self) -> StateLook:
        return look_of(self.state, self.of)

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, kw_only=True)
class RowFact:
    """What a row says beside its name."""

    text: str
    page: str | None = None
    is_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class TimelineShape:
    """Bars of one state without links: `shape` is a path in a field of 1,000 by 26."""

    state: str
    look: StateLook
    shape: str


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """A watcher, an asset or a job with its bars. Failures come last, so that nothing is drawn over them."""

    kind: Literal["watcher", "asset", "job"]
    name: str
    page: str
    facts: Sequence[RowFact]
    bars: Sequence[TimelineBar]
    color: Color
    """What is worst in it."""
    shapes: Sequence[TimelineShape] = ()


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
    """Return the marks of the span's axis (UTC): its tens of minutes, its hours or its days."""
    step, lines = _LABELS[span.zoom], _MARKS[span.zoom]
    midnight = span.since.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight
    marks = []
    while at <= span.until:
        if at >= span.since:
            x, has_line = span.x(at), not (at - midnight) % lines
            is_inside = _WIDE_EDGE <= x <= 100 - _WIDE_END
            is_labelled = has_line and _EDGE <= x <= 100 - _END
            marks.append(
                HourMark(at=at, x=x, is_labelled=is_labelled, is_labelled_if_wide=is_inside, has_line=has_line)
            )
        at += step
    return marks


def job_rows(
    span: TimeSpan,
    jobs: Sequence[JobInSpan],
    groups: Sequence[RunGroup],
    recovered: Sequence[RecoveredJob] = (),
    failed: Sequence[FailedTries] = (),
) -> Sequence[TimelineRow]:
    """Return a row for each job, in their order, with the tries that failed before their runs succeeded."""
    runs, tries = defaultdict[str, list[TimelineBar]](list), defaultdict[str, list[TimelineBar]](list)
    again = {job.dag_id: job.runs for job in recovered}
    for group in sorted(groups, key=lambda each: each.state == "failed"):
        runs[group.dag_id].append(_bar_of_runs(span, group))
    for failure in failed:
        tries[failure.dag_id].append(_bar_of_tries(span, failure))
    return [
        TimelineRow(
            kind="job",
            name=job.dag_id,
            page=path("jobs", job.dag_id),
            facts=_facts_of_job(job, again.get(job.dag_id, 0)),
            bars=[*runs[job.dag_id], *tries[job.dag_id]],
            color="bad" if job.failures else "warn" if job.dag_id in again else "calm",
        )
        for job in jobs
    ]


def _facts_of_job(job: JobInSpan, recovered: int) -> Sequence[RowFact]:
    name, runs = job.dag_id, f"{job.runs:,} {'run' if job.runs == 1 else 'runs'}"
    facts = [RowFact(text=runs, page=path("runs", job=name))]
    if job.failures:
        page = path("runs", state="failed", job=name)
        facts.append(RowFact(text=f"{job.failures:,} failed", page=page, is_bad=True))
    if recovered:
        facts.append(RowFact(text=in_words_again(recovered), page=path("runs", state="success", job=name)))
    return facts


def in_words_again(runs: int) -> str:
    """Return that so many runs succeeded after they had failed: `2 runs failed, both succeeded when run again`."""
    if runs == 1:
        return "1 run failed and succeeded when run again"
    return f"{runs:,} runs failed, {'both' if runs == 2 else 'all'} succeeded when run again"  # noqa: PLR2004  both are two


def watcher_rows(
    span: TimeSpan, watchers: Sequence[WatcherInSpan], groups: Sequence[StateGroup]
) -> Sequence[TimelineRow]:
    """Return a row for each watcher that was not running all the time, in their order."""
    bars = defaultdict[str, list[TimelineBar]](list)
    for group in groups:
        bars[group.watcher].append(_bar_of_states(span, group))
    return [
        TimelineRow(
            kind="watcher",
            name=watcher.name,
            page=path("watchers", watcher.name),
            facts=[RowFact(text=f"not running for {duration(watcher.seconds)}")],
            bars=bars[watcher.name],
            color="bad" if watcher.is_bad else "warn",
        )
        for watcher in watchers
    ]


def late_row(span: TimeSpan, name: str, page: str, since: datetime, sentence: str) -> TimelineRow:
    """Return the row of an asset that is late."""
    title = f"{visible(sentence)}; late since {moment(since)}"
    bar = _bar(span, "late", since, span.until, page, title, "other")
    fact = RowFact(text=f"late by {duration(span.until - since)}", is_bad=True)
    return TimelineRow(kind="asset", name=name, page=page, facts=[fact], bars=[bar], color="bad")


def worst_first(rows: Iterable[TimelineRow]) -> Sequence[TimelineRow]:
    """Return the rows with those first that somebody must look at, and then those to look at some time; else as they are."""
    return sorted(rows, key=lambda row: _WORST.index(row.color) if row.color in _WORST else len(_WORST))


def with_shapes(rows: Sequence[TimelineRow], most: int = MOST_LINKS) -> Sequence[TimelineRow]:
    """Return the rows with at most so many bars, the worst first; the others are one shape for each state of a row."""
    if sum(len(row.bars) for row in rows) <= most:
        return rows
    colors = (*_WORST, "busy", "calm", "good")
    places = [
        (colors.index(bar.look.color), number, place)
        for number, row in enumerate(rows)
        for place, bar in enumerate(row.bars)
    ]
    kept = {(number, place) for _, number, place in sorted(places)[:most]}
    return [
        replace(
            row,
            bars=[bar for place, bar in enumerate(row.bars) if (number, place) in kept],
            shapes=_shapes([bar for place, bar in enumerate(row.bars) if (number, place) not in kept]),
        )
        for number, row in enumerate(rows)
    ]


def _shapes(bars: Sequence[TimelineBar]) -> Sequence[TimelineShape]:
    by_state = defaultdict[tuple[str, Subject], list[TimelineBar]](list)
    for bar in bars:
        by_state[bar.state, bar.of].append(bar)
    return [
        TimelineShape(state=state, look=look_of(state, of), shape=_shape(of_state, is_tall=state == "failed"))
        for (state, of), of_state in by_state.items()
    ]


def _shape(bars: Sequence[TimelineBar], *, is_tall: bool) -> str:
    top, height = (0, 26) if is_tall else (6, 14)
    pieces: list[tuple[int, int]] = []
    for bar in sorted(bars, key=lambda each: each.x):
        begin = round(bar.x * _SHAPES / 100)
        end = max(round((bar.x + bar.width) * _SHAPES / 100), begin + 2)
        if pieces and begin - pieces[-1][1] < _TOUCHING:
            pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
        else:
            pieces.append((begin, end))
    return "".join(f"M{begin} {top}h{end - begin}v{height}H{begin}z" for begin, end in pieces)


def _bar_of_runs(span: TimeSpan, group: RunGroup) -> TimelineBar:
    if group.runs == 1:
        page, what = path("runs", group.dag_id, group.run_id), group.run_id
    else:
        page, what = path("runs", state=group.state, job=group.dag_id), f"{group.runs:,} runs"
    title = f"{what}: {group.state}, {_times(span, group.began, group.ended)}"
    return _bar(span, group.state, group.began, group.ended, page, title, "other")


def _bar_of_tries(span: TimeSpan, failed: FailedTries) -> TimelineBar:
    if failed.tries == 1:
        page, what = path("runs", failed.dag_id, failed.run_id), f"a try of {failed.run_id}"
    else:
        page, what = path("runs", state="success", job=failed.dag_id), f"{failed.tries:,} tries"
    title = f"{what} failed before the run succeeded, {_times(span, failed.began, failed.ended)}"
    return _bar(span, "up_for_retry", failed.began, failed.ended, page, title, "other")


def _bar_of_states(span: TimeSpan, group: StateGroup) -> TimelineBar:
    ended = min(group.ended, group.began + _CAPPED_AFTER) if group.is_cut else group.ended
    times = f" {group.times:,} times" if group.times > 1 else ""
    why = f": {shortened(visible(group.sentence), _SENTENCE)}" if group.sentence else ""
    title = f"{group.state}{times}, {_times(span, group.began, ended)}{why}"
    page = path("watchers", group.watcher)
    return _bar(span, group.state, group.began, ended, page, title, "watcher")


def _times(span: TimeSpan, began: datetime, ended: datetime) -> str:
    return f"{moment(began)} to {'now' if ended >= span.until else moment(ended)}"


def _bar(
    span: TimeSpan, state: str, began: datetime, ended: datetime, page: str, title: str, of: Subject
) -> TimelineBar:
    narrowest = _NARROWEST if look_of(state, of).color not in _WORST else _FAILED_NARROWEST
    x = span.x(began)
    width = max(round(span.x(ended) - x, 2), narrowest)
    return TimelineBar(state=state, x=min(x, 100 - width), width=width, page=page, title=title, of=of)


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
