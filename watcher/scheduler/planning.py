"""Which runs a job's queue makes now, as a pure function of the queue, the schedule and the clock.

Deterministic and independent of load: the same rows and the same time give the same runs, whoever looks, however often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from watcher.scheduler.conditions import Condition, is_met


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A queued event: its id, its asset's name, and since when it waits."""

    event_id: int
    asset: str
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How queued events become runs; see `batch` in the configuration."""

    mode: str = "coalesce"
    debounce: timedelta = timedelta(0)
    max_wait: timedelta = timedelta(minutes=5)
    max_events: int = 1000

    @classmethod
    def of(cls, batch: Mapping[str, Any]) -> Batching:
        """From the stored definition, durations in seconds."""
        return cls(
            mode=batch["mode"],
            debounce=timedelta(seconds=batch["debounce"]),
            max_wait=timedelta(seconds=batch["max_wait"]),
            max_events=batch["max_events"],
        )


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run to be made of exactly these events; `completed_by` is the one that completed the condition."""

    event_ids: Sequence[int]
    completed_by: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Runs to make now, and when to look again by the clock alone (None: only when something happens)."""

    runs: Sequence[PlannedRun] = ()
    look_again_in: timedelta | None = None


def plan(
    queue: Sequence[Waiting],
    schedule: Condition,
    batching: Batching,
    *,
    active_runs: int,
    max_active_runs: int,
    now: datetime,
) -> Plan:
    """Decide on a job's queue, given oldest event first."""
    completed_by = _completing(queue, schedule)
    if completed_by is None:
        return Plan()
    if batching.mode == "each":
        return Plan(runs=[PlannedRun(event_ids=[event.event_id], completed_by=event.event_id) for event in queue])
    if active_runs >= max_active_runs:
        return Plan()  # collects on; a run's end looks again
    wait = _remaining(queue, batching, now)
    if wait > timedelta(0):
        return Plan(look_again_in=wait)
    ids = [event.event_id for event in queue]
    pieces = [ids[start : start + batching.max_events] for start in range(0, len(ids), batching.max_events)]
    return Plan(
        runs=[
            PlannedRun(event_ids=piece, completed_by=completed_by if completed_by in piece else piece[-1])
            for piece in pieces
        ]
    )


def _completing(queue: Sequence[Waiting], schedule: Condition) -> int | None:
    """The first event with which the condition is met; None while it is not."""
    assets: set[str] = set()
    for event in queue:
        if event.asset not in assets:
            assets.add(event.asset)
            if is_met(schedule, assets):
                return event.event_id
    return None


def _remaining(queue: Sequence[Waiting], batching: Batching, now: datetime) -> timedelta:
    """How long to collect on. An age below zero (a clock was set back) counts as due."""
    since_last = now - max(event.since for event in queue)
    since_first = now - min(event.since for event in queue)
    if since_last < timedelta(0) or since_first < timedelta(0):
        return timedelta(0)
    return min(batching.debounce - since_last, batching.max_wait - since_first)
