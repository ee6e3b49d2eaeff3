"""A strip of a watcher's last polls: what found something is high, what was idle is low, and an error has a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from watcher.features.pages.words import duration, moment
from watcher.host.poll_history import MOST_POLLS, Poll

HEIGHT: Final = 24
STEP: Final = 7
_WIDTH: Final = 5


@dataclass(frozen=True, kw_only=True)
class PollMark:
    """A poll, or several alike in a row. `kind` is found, idle or error; `shape` is the data of an SVG path."""

    kind: str
    shape: str
    title: str


@dataclass(frozen=True, kw_only=True)
class PollStrip:
    """The marks of the last polls, the newest at the right, and their content as a sentence."""

    marks: Sequence[PollMark]
    sentence: str
    width: int = MOST_POLLS * STEP
    height: int = HEIGHT


def poll_strip(newest_first: Sequence[Poll]) -> PollStrip:
    """Draw the polls. The marks stand beside each other; their titles have the times."""
    polls = newest_first[:MOST_POLLS][::-1]
    left = MOST_POLLS - len(polls)
    marks = [
        PollMark(kind=_kind(poll), shape=_shape(_kind(poll), (left + place) * STEP), title=_title(poll))
        for place, poll in enumerate(polls)
    ]
    counts = {kind: sum(poll.times for poll in polls if _kind(poll) == kind) for kind in ("found", "idle", "error")}
    words = {"found": "found something", "idle": "were idle", "error": "failed"}
    shown = ", ".join(f"{count:,} {words[kind]}" for kind, count in counts.items() if count)
    return PollStrip(marks=marks, sentence=f"The last polls: {shown}" if polls else "no poll yet")


def _kind(poll: Poll) -> str:
    return "error" if poll.error is not None else "idle" if poll.is_idle else "found"


def _shape(kind: str, x: int) -> str:
    right = x + _WIDTH
    match kind:
        case "found":
            return f"M{x} {HEIGHT}V4H{right}V{HEIGHT}z"
        case "idle":
            return f"M{x} {HEIGHT}V{HEIGHT - 3}H{right}V{HEIGHT}z"
        case _:
            return f"M{x} {HEIGHT}V4L{x + _WIDTH / 2} 0L{right} 4V{HEIGHT}L{x + _WIDTH / 2} {HEIGHT - 4}z"


def _title(poll: Poll) -> str:
    times = f", the last of {poll.times:,}" if poll.times > 1 else ""
    took = "" if poll.seconds is None else f" in {duration(poll.seconds)}" if poll.seconds >= 1 else ""
    at = moment(datetime.fromisoformat(poll.started))
    match _kind(poll):
        case "found":
            return f"found {poll.found:,}, {poll.committed:,} events{took}, {at}{times}"
        case "idle":
            return f"idle, {at}{times}"
        case _:
            return f"failed, {at}{times}: {poll.error}"
