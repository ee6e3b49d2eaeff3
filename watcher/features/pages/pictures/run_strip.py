"""A strip of a job's last runs: height stands for duration, colour and shape for the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from store.features.pages.run_history import MOST_RUNS, PastRun
from watcher.features.pages.words import age, duration, moment
from watcher.host.page_paths import path

HEIGHT: Final = 24
STEP: Final = 7
_MOST_WITH_LINKS: Final = 25
"""The strips of a page in which every run is a link."""
_WIDTH: Final = 5
_LOWEST: Final = 4
"""The height of the shortest run, which has to be visible."""
_FAILED_LOWEST: Final = 14
"""A failed run is seen from afar, however short it was."""


@dataclass(frozen=True, kw_only=True)
class RunMark:
    """A run in a strip: `shape` is the data of an SVG path, `page` is below the root. Without a page: all runs of the state."""

    shape: str
    state: str
    page: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class RunStrip:
    """The marks of a job's last runs, the newest at the right, and their content as a sentence."""

    marks: Sequence[RunMark]
    sentence: str
    width: int = MOST_RUNS * STEP
    height: int = HEIGHT


def run_strip(runs: Sequence[PastRun], now: datetime) -> RunStrip:
    """Draw the runs, the oldest first. The longest one has the full height."""
    seconds = [_seconds(each, now) for each in runs]
    longest = max(seconds, default=0.0)
    left = MOST_RUNS - len(runs)
    marks = [
        RunMark(
            shape=_shape(each.state, (left + place) * STEP, _height(each.state, took, longest)),
            state=each.state,
            page=path("runs", each.dag_id, each.run_id),
            title=_title(each, took),
        )
        for place, (each, took) in enumerate(zip(runs, seconds, strict=True))
    ]
    return RunStrip(marks=marks, sentence=_sentence(runs, longest, now))


def small_strip(runs: Sequence[PastRun], now: datetime) -> RunStrip:
    """Draw the same with one mark for all runs of a state, where many strips are on a page: it takes a twentieth of the text."""
    strip = run_strip(runs, now)
    states = dict.fromkeys(mark.state for mark in strip.marks)
    shapes = {state: "".join(mark.shape for mark in strip.marks if mark.state == state) for state in states}
    return replace(strip, marks=[RunMark(shape=shape, state=state) for state, shape in shapes.items()])


def strips_of(names: Collection[str], past: Mapping[str, Sequence[PastRun]], now: datetime) -> Mapping[str, RunStrip]:
    """Return the strips of the jobs of a list, by name; of a long list the small ones."""
    strip = run_strip if len(names) <= _MOST_WITH_LINKS else small_strip
    return {name: strip(past.get(name, ()), now) for name in names}


def _seconds(run: PastRun, now: datetime) -> float:
    if run.start_date is None:
        return 0.0
    return max(((run.end_date or now) - run.start_date).total_seconds(), 0.0)


def _height(state: str, seconds: float, longest: float) -> int:
    lowest = _FAILED_LOWEST if state == "failed" else _LOWEST
    return max(lowest, round(HEIGHT * seconds / longest)) if longest else lowest


def _shape(state: str, x: int, height: int) -> str:
    """Return the outline: a bar; with a point and a notch if it failed, hollow while it runs, a flat line while it waits."""
    top, right = HEIGHT - height, x + _WIDTH
    match state:
        case "failed":
            middle = x + _WIDTH / 2
            return f"M{x} {HEIGHT}V{top + 4}L{middle} {top}L{right} {top + 4}V{HEIGHT}L{middle} {HEIGHT - 3}z"
        case "running":
            return f"M{x + 0.5} {HEIGHT - 0.5}V{top + 0.5}H{right - 0.5}V{HEIGHT - 0.5}z"
        case "queued":
            return f"M{x} {HEIGHT}V{HEIGHT - 2}H{right}V{HEIGHT}z"
        case _:
            return f"M{x} {HEIGHT}V{top}H{right}V{HEIGHT}z"


def _title(run: PastRun, seconds: float) -> str:
    took = f" for {duration(seconds)}" if run.state == "running" else f" after {duration(seconds)}"
    state = run.state + (took if run.start_date is not None else "")
    return f"{run.run_id}: {state}, {moment(run.end_date or run.start_date or run.queued_at)}"


def _sentence(runs: Sequence[PastRun], longest: float, now: datetime) -> str:
    """Return the strip's content for people who cannot see it."""
    if not runs:
        return "no run yet"
    states = [run.state for run in runs]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    last = runs[-1]
    return (
        f"the last {len(runs)} runs: {counts}; the newest is {last.state} "
        f"({age(last.end_date or last.start_date or last.queued_at, now)}); the longest took {duration(longest)}"
    )
