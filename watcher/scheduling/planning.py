"""Which runs a job's queue makes now, as pure functions of the queue, the schedule and the clock.

Deterministic and independent of load: the same rows and the same time give the same runs, whoever looks, however often.
A look knows the queued assets only; the events themselves are read once it is due that they become runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from store.keys import Batching, Condition
from watcher.scheduling.conditions import Resolved, is_met


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run to be made of exactly these events; `completed_by` is the one that completed the condition.

    With a `tick` the clock starts it, whatever is queued; a run of the clock alone has no events.
    """

    event_ids: Sequence[int] = ()
    completed_by: int | None = None
    tick: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Runs to make now, whether more of the queue is decided on, and when to look again by the clock alone (None: never)."""

    runs: Sequence[PlannedRun] = ()
    has_rest: bool = False
    look_again_in: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class Waits:
    """What a job waits for: a condition over events (None: a time only), and what its aliases have resolved to."""

    condition: Condition | None
    aliases: Resolved = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many runs a job has that are not over, and how many it may have at a time."""

    active: int
    allowed: int

    @property
    def is_used(self) -> bool:
        return self.active >= self.allowed


MOST_EVENTS: Final = 10_000
"""Queued events that become runs in one transaction, unless one run takes more; the rest follows in the next."""
MOST_RUNS: Final = 1_000
"""Runs made in one transaction, likewise."""


def completing(first_events: Mapping[str, int], waits: Waits) -> int | None:
    """The event with which the condition is met, given the lowest queued event of each asset; None while it is not."""
    assets: set[str] = set()
    for asset, event_id in sorted(first_events.items(), key=itemgetter(1)):
        assets.add(asset)
        if waits.condition is not None and is_met(waits.condition, assets, waits.aliases):
            return event_id
    return None


def is_due(completed_by: int | None, batching: Batching, capacity: Capacity, *, ticks: Sequence[datetime] = ()) -> bool:
    """Whether what is queued becomes runs, once it was collected for long enough.

    With `each` every event has its own run. Else a tick takes what is queued, also before the condition is met; without
    one the job collects on while it has as many runs as it may: a run's end looks again.
    """
    if batching.mode == "each":
        return completed_by is not None
    return bool(ticks) or (completed_by is not None and not capacity.is_used)


def collects(batching: Batching) -> bool:
    """Whether it matters when the queued events came."""
    return batching.mode != "each" and batching.debounce > timedelta(0)


def remaining(oldest: datetime, newest: datetime, batching: Batching, now: datetime) -> timedelta:
    """How long to collect on. An age below zero (a clock was set back) counts as due."""
    since_last, since_first = now - newest, now - oldest
    if since_last < timedelta(0) or since_first < timedelta(0):
        return timedelta(0)
    return min(batching.debounce - since_last, batching.max_wait - since_first)


def most_at_once(batching: Batching) -> int:
    """How many events one transaction turns into runs: as many as fill them, and those of one run at least."""
    of_a_run = _of_a_run(batching)
    return max(1, min(MOST_RUNS, MOST_EVENTS // of_a_run)) * of_a_run


def runs_of(event_ids: Sequence[int], completed_by: int | None, batching: Batching) -> Sequence[PlannedRun]:
    """The runs of these events, lowest first; `completed_by` None: a tick takes them before the condition is met."""
    of_a_run = _of_a_run(batching)
    pieces = (event_ids[start : start + of_a_run] for start in range(0, len(event_ids), of_a_run))
    if completed_by is None:
        return [PlannedRun(event_ids=piece) for piece in pieces]
    return [
        PlannedRun(event_ids=piece, completed_by=completed_by if completed_by in piece else piece[-1])
        for piece in pieces
    ]


def with_ticks(runs: Sequence[PlannedRun], ticks: Sequence[datetime], batching: Batching) -> Sequence[PlannedRun]:
    """A run for each tick that is due; the first one's takes the events of the first run, but with `each`."""
    if batching.mode == "each" or not ticks:
        return [*runs, *(PlannedRun(tick=tick) for tick in ticks)]
    first, *others = runs or [PlannedRun()]
    return [replace(first, tick=ticks[0]), *others, *(PlannedRun(tick=tick) for tick in ticks[1:])]


def _of_a_run(batching: Batching) -> int:
    return 1 if batching.mode == "each" else batching.max_events
