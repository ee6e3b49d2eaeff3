"""What the reference model says of each item: where it may be, and which words an answer about it may use.

It knows what the world did (what was written, what was deleted) and what people asked for, and nothing of the product's tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tests.service.scheduler.schedule_model import QueuedModelEvent, ScheduleModel

PLACES = ("queue", "run", "dropped")
"""Where an event is at a job."""


@dataclass(kw_only=True)
class AskedFor:
    """What people asked for, as far as it changes which fates are allowed."""

    rewinds: Counter[str] = field(default_factory=Counter)
    """How often each watcher was told to report again."""
    passed_over: set[str] = field(default_factory=set)
    """The watchers that were told to pass over what was there."""
    dropped: dict[str, int] = field(default_factory=dict)
    """The newest event at the last time that each job's queue was dropped."""
    removed: set[str] = field(default_factory=set)
    """The jobs that were removed at a time, or are new."""
    touched: set[tuple[str, str]] = field(default_factory=set)
    """The runs that a person cleared, cancelled, marked or deleted, or tried to."""
    decided: set[str] = field(default_factory=set)
    """The jobs whose runs a replay may have cleared."""
    is_past_retention: bool = False


@dataclass(frozen=True, kw_only=True)
class SeenEvent:
    """An event as it is found at the end, and its places at each job, each so often."""

    number: int
    asset: str
    places: Mapping[str, Counter[str]]


def events_allowed(asked: AskedFor, watcher: str, *, is_there: bool) -> tuple[int, int]:
    """Return the least and the greatest number of events that may name an item."""
    least = 1 if is_there and watcher not in asked.passed_over and not asked.is_past_retention else 0
    return least, 1 + asked.rewinds[watcher]


def places_faults(asked: AskedFor, event: SeenEvent, jobs: Collection[str]) -> list[str]:
    """Return what is wrong with where an event is: at each job that waits for its asset it is in one place."""
    faults: list[str] = []
    for dag_id in jobs:
        found = event.places.get(dag_id, Counter())
        allowed = {"queue", "run"}
        if event.number <= asked.dropped.get(dag_id, 0) or dag_id in asked.removed or asked.is_past_retention:
            allowed.add("dropped")
        if sum(found.values()) != 1:
            faults.append(f"event {event.number} of {event.asset} is at {dag_id} in {dict(found)}")
        elif not found.keys() <= allowed:
            faults.append(
                f"event {event.number} of {event.asset} is at {dag_id} in {dict(found)}, and nobody asked for it"
            )
    return faults


def nothing_due_is_left(schedule: object, queued: Sequence[str]) -> bool:
    """Whether a job that rests does not meet its condition with these queued assets."""
    model = ScheduleModel(alone_at_once=1)
    return not model.is_met(schedule, [QueuedModelEvent(asset=each, satisfied=frozenset({-1})) for each in queued])


def fates_allowed(
    *, is_reported: bool, loaded_by: Collection[str], jobs: Collection[str], is_there: bool
) -> frozenset[str]:
    """Return the words that an answer may use of an item at rest, when nothing waits and no run has failed."""
    if is_reported and set(jobs) <= set(loaded_by):
        return frozenset(
            {"loaded", "cleaned", "moved", "dropped", "queued"} if not is_there else {"loaded", "dropped", "queued"}
        )
    return frozenset({"queued", "failed", "dropped", "loaded", "cleaned", "moved", "reported", "running", "replaced"})
