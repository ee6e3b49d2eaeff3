"""Which runs a job's queue makes now, as a pure function of the queue, the schedule and the clock.

Deterministic and independent of load: the same rows and the same time give the same runs, whoever looks, however often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from store.keys import Batching, Condition, QueuedEvent
from watcher.scheduler.conditions import Resolved, is_met


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
    """Runs to make now, and when to look again by the clock alone (None: only when something happens)."""

    runs: Sequence[PlannedRun] = ()
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


def plan(
    queue: Sequence[QueuedEvent],
    waits: Waits,
    batching: Batching,
    capacity: Capacity,
    *,
    now: datetime,
    ticks: Sequence[datetime] = (),
) -> Plan:
    """Decide on a job's queue, given oldest event first, and on the ticks that are due for a run each.

    With `each` every event has its own run, and so has every tick. Else the first tick's run takes what is queued, also
    before the condition is met.
    """
    if batching.mode == "each":
        own = [PlannedRun(event_ids=[event.event_id], completed_by=event.event_id) for event in queue]
        met = _completing(queue, waits) is not None
        return Plan(runs=(*(own if met else ()), *(PlannedRun(tick=tick) for tick in ticks)))
    if not ticks:
        return _of_events(queue, waits, batching, capacity, now)
    first, *pieces = _pieces(queue, _completing(queue, waits), batching.max_events) or [PlannedRun()]
    return Plan(runs=[replace(first, tick=ticks[0]), *pieces, *(PlannedRun(tick=tick) for tick in ticks[1:])])


def _of_events(
    queue: Sequence[QueuedEvent], waits: Waits, batching: Batching, capacity: Capacity, now: datetime
) -> Plan:
    completed_by = _completing(queue, waits)
    if completed_by is None or capacity.is_used:
        return Plan()  # collects on; a run's end looks again
    wait = _remaining(queue, batching, now)
    if wait > timedelta(0):
        return Plan(look_again_in=wait)
    return Plan(runs=_pieces(queue, completed_by, batching.max_events))


def _pieces(queue: Sequence[QueuedEvent], completed_by: int | None, max_events: int) -> list[PlannedRun]:
    ids = [event.event_id for event in queue]
    pieces = [ids[start : start + max_events] for start in range(0, len(ids), max_events)]
    if completed_by is None:
        return [PlannedRun(event_ids=piece) for piece in pieces]
    return [
        PlannedRun(event_ids=piece, completed_by=completed_by if completed_by in piece else piece[-1])
        for piece in pieces
    ]


def _completing(queue: Sequence[QueuedEvent], waits: Waits) -> int | None:
    """The first event with which the condition is met; None while it is not."""
    assets: set[str] = set()
    for event in queue:
        if event.asset not in assets and waits.condition is not None:
            assets.add(event.asset)
            if is_met(waits.condition, assets, waits.aliases):
                return event.event_id
    return None


def _remaining(queue: Sequence[QueuedEvent], batching: Batching, now: datetime) -> timedelta:
    """How long to collect on. An age below zero (a clock was set back) counts as due."""
    since_last = now - max(event.created_at for event in queue)
    since_first = now - min(event.created_at for event in queue)
    if since_last < timedelta(0) or since_first < timedelta(0):
        return timedelta(0)
    return min(batching.debounce - since_last, batching.max_wait - since_first)
