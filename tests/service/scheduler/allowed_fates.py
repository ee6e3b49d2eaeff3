"""What the reference model says of each item: where it may be, and which words an answer about it may use.

It knows what the world did (what was written, what was deleted) and what people asked for, and nothing of the product's tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from store.fates import MOVES_AT_JOBS, Move
from store.runs.runs import MOVES_OF_RUNS
from tests.service.scheduler.schedule_model import (
    PATIENCE,
    PLAIN,
    ModelEvent,
    ModelJob,
    QueuedModelEvent,
    ScheduleModel,
)

PLACES = ("queue", "run", "dropped", "forgotten")
"""Where an event is at a job. What a run has made of it is forgotten once the clean-up has removed the run."""
BY_PEOPLE = frozenset(
    {
        "the run is cleared",
        "it is cleared",
        "it is cancelled",
        "it is taken off the queue",
        "the run is deleted",
        "a person deletes it",
        "a person marks it",
        "replay",
        "replay with what was dropped",
    }
)
"""The reasons of the moves, in the pictures of states, that nothing makes by itself."""


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
    is_past_retention_of_runs: bool = False


class Fate(NamedTuple):
    """What an event is at a job at a moment, and the run that has it."""

    state: str
    run_id: str | None


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
        if asked.is_past_retention_of_runs or asked.is_past_retention:
            allowed.add("forgotten")
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


def _by_itself(moves: Sequence[Move]) -> Mapping[str, frozenset[str]]:
    """Return the states to which each state may lead without a person, in any number of moves."""
    direct = [(each.before, each.after) for each in moves if each.before is not None and each.because not in BY_PEOPLE]
    reached = {state: {state} for move in moves for state in (move.before, move.after) if state is not None}
    for _ in reached:
        for before, after in direct:
            for states in reached.values():
                if before in states:
                    states.add(after)
    return {str(state): frozenset(map(str, states)) for state, states in reached.items()}


EVENTS_BY_THEMSELVES = _by_itself(MOVES_AT_JOBS)
RUNS_BY_THEMSELVES = _by_itself(MOVES_OF_RUNS)


def moves_faults(
    asked: AskedFor, before: Mapping[tuple[str, int], Fate], now: Mapping[tuple[str, int], Fate]
) -> list[str]:
    """Return what has moved between two moments, and may not without a person: an event at a job, from state to state."""
    faults: list[str] = []
    for (dag_id, event), was in before.items():
        if (found := now.get((dag_id, event))) is None:
            if not asked.is_past_retention and dag_id not in asked.removed:
                faults.append(f"event {event} was {was.state} at {dag_id}, and is nowhere")
            continue
        is_asked_for = dag_id in asked.decided or not asked.touched.isdisjoint(
            (dag_id, run_id) for run_id in (was.run_id, found.run_id) if run_id is not None
        )
        may_be_dropped = event <= asked.dropped.get(dag_id, 0) or dag_id in asked.removed
        allowed = EVENTS_BY_THEMSELVES[was.state] | ({"dropped"} if may_be_dropped and was.state == "queued" else set())
        if not is_asked_for and found.state not in allowed:
            faults.append(f"event {event} was {was.state} at {dag_id}, and is {found.state}; nobody asked for it")
        if was.run_id is not None and found.run_id not in (was.run_id, None) and not is_asked_for:
            faults.append(f"event {event} was in the run {was.run_id} of {dag_id}, and is in {found.run_id}")
    return faults


def runs_faults(
    asked: AskedFor, before: Mapping[tuple[str, str], str], now: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return which runs have moved between two moments from a state to one to which only a person moves them."""
    are_forgotten = asked.is_past_retention or asked.is_past_retention_of_runs
    return [
        f"the run {run} was {state}, and is {found or 'gone'}; nobody asked for it"
        for run, state in before.items()
        if (found := now.get(run)) not in RUNS_BY_THEMSELVES[state]
        and run not in asked.touched
        and run[0] not in asked.decided
        and not (found is None and (are_forgotten or run[0] in asked.removed))
    ]


def nothing_complete_is_left(
    job: ModelJob,
    events: Mapping[int, ModelEvent],
    queued: Collection[int],
    had: Mapping[str | None, Collection[int]],
    dropped: Collection[int],
) -> bool:
    """Whether a job that takes partitions, and rests, has no queued events of one that is complete or whose deadline is over.

    `had` are the events of the runs of each partition.
    """
    model = ScheduleModel(alone_at_once=1)
    state = model.jobs["one"]
    model.events.update(events)
    state.now, state.age = job, PATIENCE
    for event in sorted(queued):
        state.queue[event] = QueuedModelEvent(asset=events[event].asset, satisfied=frozenset({PLAIN}))
        state.came[event] = 0
    state.closed.update(had)
    state.had.update({key: {*of_runs} for key, of_runs in had.items()})
    state.dropped.update(dropped)
    model.check()
    return not state.runs
