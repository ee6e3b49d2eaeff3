"""A reference model of scheduling, which shares no code with the scheduler: what is queued, what a check makes into runs.

It plays histories of events, reloads, checks, pauses, ends of runs, time, replays, deletions, kills and take-overs, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias

Action: TypeAlias = tuple[str, Any]
JOBS = ("one", "two", "three", "late", "last")
EVENTS_AT_ONCE = 2
"""The stored events that a new job gets in one step, as the histories have it."""
ASSETS = "abcd"
EVENTS = ('{"n": 1}', '{"n": 1.0}', '{"n": "1"}', '{"n": null}', "{}")
"""What events say, by number."""
WHERES: tuple[tuple[Any, frozenset[int]], ...] = (
    ({"extra.n": 1}, frozenset({0, 1})),
    ({"extra.n": ["1", None]}, frozenset({2, 3})),
    ({"extra.n": [None, 1.0]}, frozenset({0, 1, 3})),
)
"""What schedules ask for, each with the numbers of the events that say it."""
PLAIN = -1
"""Stands for no `where` among the numbers of the `WHERES`."""
SCHEDULES: tuple[Any, ...] = (
    "a",
    {"asset": "a", "where": WHERES[0][0]},
    {"any": [{"asset": "a", "where": WHERES[0][0]}, {"asset": "a", "where": WHERES[2][0]}]},
    {"all": [{"asset": "a", "where": WHERES[1][0]}, "a", {"asset": "b", "where": WHERES[0][0]}]},
    {"any": [{"alias": "alias", "where": WHERES[1][0]}, {"all": ["b", {"asset": "a", "where": WHERES[2][0]}]}]},
    "b",
    {"alias": "alias"},
    {"all": ["a", "b"]},
    {"all": ["b", "c"]},
    {"any": ["a", "d"]},
    {"all": ["a", {"any": ["c", {"alias": "alias"}]}]},
    {"any": [{"all": ["a", "b"]}, {"all": ["c", "d"]}]},
)
WITH_EACH = (*SCHEDULES[:3], *SCHEDULES[5:7], {"any": ["a", "d"]}, {"any": ["c", {"alias": "alias"}]})


PARTS = {"a": ("day", "region"), "b": ("day", "region"), "d": ("day",)}
"""The parts of the assets' partition keys."""
DIVIDED: dict[str, tuple[str, ...]] = {
    "1|x": ("1", "x"),
    "1|y": ("1", "y"),
    "1|": ("1", ""),
    "2|x": ("2", "x"),
    "1": ("1",),
    "1\\|x": ("1|x",),
    "1\\|x|y": ("1|x", "y"),
}
"""Keys, and the values that each of them joins."""
JOINED = {**{values: key for key, values in DIVIDED.items()}, ("x",): "x", ("y",): "y", ("2",): "2"}


PATIENCE = 2
"""The ages after which an incomplete partition is run as it is, where the job says so."""
MARKS = 1
"""The number of what an event says that names a marker."""
NAMES = 4
"""The number of what an event says that names a manifest."""
FILES = ("f0", "f1", "f2")
MANIFESTS = ("m0", "m1")


@dataclass(frozen=True, kw_only=True)
class ModelComplete:
    """A partition is complete with so many (`needed`) of the values of a part, with so many `items`, or with an event that `MARKS`.

    With `named`, it is with an event that `NAMES` files, and all files that these events name. With `again` what comes after that is
    its next delivery.
    """

    part: str = ""
    values: tuple[str, ...] = ()
    needed: int = 0
    items: int | None = None
    marked: bool = False
    named: bool = False
    again: bool = False


Flags: TypeAlias = tuple[bool | None, bool, bool]
"""Whether a run's partition was complete, whether its events were late, and whether they were of a later delivery."""
NO_FLAGS: Flags = (None, False, False)
COMPLETE: tuple[tuple[tuple[str, ...] | None, ModelComplete | None], ...] = (
    *[(by, None) for by in (None, None, ("day",), ("region",))],
    (("day",), ModelComplete(part="region", values=("x", "y"), needed=2)),
    (("day",), ModelComplete(part="region", values=("x", "y", "z"), needed=2)),
    (("region",), ModelComplete(part="day", values=("1", "2"), needed=1)),
    (("day",), ModelComplete(items=2)),
    (None, ModelComplete(items=3)),
    (("day",), ModelComplete(marked=True)),
    (("day",), ModelComplete(named=True)),
    (None, ModelComplete(named=True)),
)
"""How partitions are grouped, and when they are complete."""


@dataclass(frozen=True, kw_only=True)
class ModelJob:
    """A job as one configuration has it. `month`: it has a tick a year, in that month; None: no cron."""

    schedule: Any
    month: int | None
    each: bool
    max_events: int
    max_active_runs: int
    per_partition: bool = False
    by: tuple[str, ...] | None = None
    complete: ModelComplete | None = None
    joint: bool = False
    """A run needs a tick and the condition."""
    run_after: bool = False
    """A partition that is incomplete for `PATIENCE` ages is run as it is."""
    catchup: bool = False
    """When it is new, it gets the events that are stored already. It has no cron then."""


def number_of(reference: Any) -> int:
    """Return the number of a reference's `where`."""
    where = None if isinstance(reference, str) else reference.get("where")
    return PLAIN if where is None else [each for each, _ in WHERES].index(where)


def names(condition: Any) -> Iterator[tuple[str, str, int]]:
    """Yield the kind, the name and the number of the `where` of each reference."""
    match condition:
        case str():
            yield "asset", condition, PLAIN
        case {"asset": str(name)}:
            yield "asset", name, number_of(condition)
        case {"alias": str(name)}:
            yield "alias", name, number_of(condition)
        case {"all": parts} | {"any": parts}:
            for part in parts:
                yield from names(part)


@dataclass(frozen=True, kw_only=True)
class ModelEvent:
    """An event: its asset, the number of what it says, its partition key, and the file that it names.

    `names` are the files that a manifest names; None: its watcher did not read it.
    """

    asset: str
    says: int
    key: str | None
    file: str | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class QueuedModelEvent:
    """A queued event: its asset, and the numbers of the `where`s that it satisfied when it was queued."""

    asset: str
    satisfied: frozenset[int]


@dataclass
class JobState:
    """What the model knows of a job, over all configurations."""

    now: ModelJob | None = None
    paused: bool = False
    queue: dict[int, QueuedModelEvent] = field(default_factory=dict)
    runs: list[tuple[int, ...]] = field(default_factory=list)
    """The events of each run, in the order of the runs."""
    keys: list[str | None] = field(default_factory=list)
    """The partition key of each run."""
    flags: list[Flags] = field(default_factory=list)
    """What each run says of its partition."""
    had: dict[str | None, set[int]] = field(default_factory=dict)
    """The events of the runs of each partition that may be delivered again with a manifest."""
    closed: set[str | None] = field(default_factory=set)
    """The keys of the partitions that have had a run."""
    last_by: tuple[str, ...] | None = None
    """The parts by which the last configuration of the job groups."""
    age: int = 0
    """How often time has passed on its clock, each time for longer than `max_wait`."""
    came: dict[int, int] = field(default_factory=dict)
    """Its age when each event was queued, as its clock has it: stored events come at once, whatever its age."""
    states: list[str] = field(default_factory=list)
    """What became of each run: queued, over or deleted."""
    forgotten: set[int] = field(default_factory=set)
    """The runs, by their number, that the clean-up has removed."""
    past: set[int] = field(default_factory=set)
    """The events that these runs had consumed."""
    clock: int | None = None
    """The month by which the next tick was computed."""
    tick_is_due: bool = False
    ticked: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    owed: set[int] = field(default_factory=set)
    catchup: list[int] | None = None
    """The stored events that it still has to get; None: it does not catch up."""

    @property
    def active(self) -> int:
        return self.states.count("queued")

    def end(self, state: str) -> None:
        self.states = [state if each == "queued" else each for each in self.states]

    def waited(self, event: int) -> int:
        """Return how many ages a queued event has waited."""
        return self.age - self.came[event]

    def run_of(self, event: int) -> int | None:
        return next((number for number, events in enumerate(self.runs) if event in events), None)


class ScheduleModel:
    """Predicts the queue and the runs of every job."""

    def __init__(self, alone_at_once: int) -> None:
        self.alone_at_once = alone_at_once
        """The most events of a partition that have runs of their own at a time."""
        self.jobs = {dag_id: JobState() for dag_id in JOBS}
        self.resolved: set[str] = set()
        """The assets that the alias has resolved to."""
        self.events: dict[int, ModelEvent] = {}
        self.seen: set[str] = set()
        """The jobs that were configured once."""

    def stored_for(self, now: ModelJob) -> list[int]:
        """Return the stored events of a job's assets, in order."""
        return [each for each in sorted(self.events) if self.asked_of(self.events[each].asset, now.schedule)]

    def earlier(self, configuration: Mapping[str, ModelJob]) -> Mapping[str, int]:
        """Return, for each job that a reload would be the first to have, how many events of its assets are stored."""
        new = {dag_id: len(self.stored_for(now)) for dag_id, now in configuration.items() if dag_id not in self.seen}
        return {dag_id: number for dag_id, number in new.items() if number}

    def asked_of(self, asset: str, condition: Any) -> frozenset[int]:
        """Return the numbers of the `where`s of all references to an asset."""
        pairs = names(condition)
        return frozenset(
            where for kind, name, where in pairs if (asset == name if kind == "asset" else asset in self.resolved)
        )

    def queued(self, event: ModelEvent, condition: Any) -> QueuedModelEvent | None:
        """Return what is queued of an event that comes now."""
        asked = self.asked_of(event.asset, condition)
        satisfied = frozenset(where for where in asked if where == PLAIN or event.says in WHERES[where][1])
        return QueuedModelEvent(asset=event.asset, satisfied=satisfied) if satisfied else None

    def is_waited_for(self, event: QueuedModelEvent, condition: Any) -> bool:
        return bool(self.asked_of(event.asset, condition) & event.satisfied)

    def is_met(self, condition: Any, queued: Collection[QueuedModelEvent]) -> bool:
        match condition:
            case str() | {"asset": _}:
                ((_, name, where),) = names(condition)
                return any(each.asset == name and where in each.satisfied for each in queued)
            case {"alias": _}:
                where = number_of(condition)
                return any(each.asset in self.resolved and where in each.satisfied for each in queued)
            case {"all": parts}:
                return all(self.is_met(part, queued) for part in parts)
            case {"any": parts}:
                return any(self.is_met(part, queued) for part in parts)
        return False

    def add_event(self, event_id: int, event: ModelEvent) -> None:
        self.events[event_id] = event
        for job in self.jobs.values():
            if job.now is not None and (queued := self.queued(event, job.now.schedule)):
                job.queue[event_id] = queued
                job.came[event_id] = job.age
                job.owed.add(event_id)

    def reload(self, configuration: Mapping[str, ModelJob]) -> int:
        """Return how many queued events went with jobs that were removed."""
        dropped = 0
        for dag_id, job in self.jobs.items():
            job.now = configuration.get(dag_id)
            if job.now is not None and dag_id not in self.seen:
                self.seen.add(dag_id)
                earlier = self.stored_for(job.now)
                job.catchup = earlier if job.now.catchup and earlier else None
            elif job.now is None or not job.now.catchup or job.now.schedule is None:
                job.catchup = None
            if job.now is not None:
                if job.now.per_partition and job.now.by != job.last_by:
                    job.closed.clear()
                    job.had.clear()
                job.last_by = job.now.by
            if job.now is None:
                dropped += len(job.queue)
                self.drop(dag_id)
            elif job.now.month is None:
                job.clock, job.tick_is_due = None, False
        return dropped

    def drop(self, dag_id: str) -> None:
        job = self.jobs[dag_id]
        job.dropped.update(job.queue)
        job.queue.clear()

    def left(self, dag_id: str) -> list[int]:
        """Return the queued events that the job's schedule does not wait for, in order."""
        job = self.jobs[dag_id]
        schedule = None if job.now is None else job.now.schedule
        return [each for each, event in sorted(job.queue.items()) if not self.is_waited_for(event, schedule)]

    def run_left(self, dag_id: str) -> None:
        job, events = self.jobs[dag_id], self.left(dag_id)
        assert job.now is not None
        now = job.now
        if now.per_partition:
            for some in pieces(events, self.alone_at_once):
                self._make_alone(job, now, some)
            return
        for run in pieces(events, 1 if now.each else now.max_events):
            self._make_with_common_key(job, run)

    def _make_alone(self, job: JobState, now: ModelJob, events: Collection[int]) -> None:
        """Make a run of each of these events, at once. They are late only if their partitions have had runs before."""
        groups = {event: self.group_of(event, now.by) for event in events}
        flags = {key: self._flags_as_it_is(job, now, key) for key in groups.values()}
        for event, key in groups.items():
            self._make(job, (event,), key, flags[key])
        job.closed.update(groups.values())

    def _flags_as_it_is(self, job: JobState, now: ModelJob, key: str | None) -> Flags:
        """Return what the run says that takes events of a partition whatever it lacks."""
        is_closed = key in job.closed
        if now.complete is None:
            return NO_FLAGS
        return (False, False, is_closed) if now.complete.again else (is_closed, is_closed, False)

    def force(self, dag_id: str) -> str | None:
        """Run the partition with the oldest queued event as it is; return its key."""
        job = self.jobs[dag_id]
        assert job.now is not None
        now, key = job.now, self.group_of(min(job.queue), job.now.by)
        events = tuple(event for event in sorted(job.queue) if self.group_of(event, now.by) == key)
        self._make(job, events, key, self._flags_as_it_is(job, now, key))
        job.closed.add(key)
        return key

    def drop_left(self, dag_id: str) -> None:
        job = self.jobs[dag_id]
        for event in self.left(dag_id):
            job.dropped.add(event)
            del job.queue[event]

    def replay(self, dag_id: str, first: int, last: int, *, include_dropped: bool) -> Mapping[str, int]:
        """Replay the events from the place `first` to `last` of all stored ones; return how many there are of each kind."""
        job = self.jobs[dag_id]
        counted: Counter[str] = Counter()
        cleared: set[int] = set()
        assert job.now is not None
        for event in sorted(self.events)[first : last + 1]:
            if not self.asked_of(self.events[event].asset, job.now.schedule):
                continue
            queued = self.queued(self.events[event], job.now.schedule)
            number = job.run_of(event)
            state = "new" if number is None else job.states[number]
            if event in job.queue:
                kind = "waiting"
            elif event in job.dropped or state == "deleted":
                kind = "dropped"
            elif event in job.past:
                kind = "forgotten"
            else:
                kind = {"new": "new", "queued": "running", "over": "over"}[state]
            again = kind in {"dropped", "forgotten"} and include_dropped
            is_queued = queued is not None and (kind == "new" or again)
            counted["queued" if is_queued else kind] += 1
            counted["queued forgotten"] += is_queued and kind == "forgotten"
            if is_queued and queued is not None:
                if number is not None:
                    job.runs[number] = tuple(each for each in job.runs[number] if each != event)
                job.dropped.discard(event)
                job.past.discard(event)
                job.queue[event] = queued
                job.came[event] = 0
                job.owed.add(event)
            elif kind == "over" and number is not None:
                cleared.add(number)
        for number in cleared:
            job.states[number] = "queued"
        counted["outside"] = sum(len(job.runs[number]) for number in cleared) - counted["over"]
        counted["cleared_runs"] = len(cleared)
        return counted

    def forget(self, dag_id: str) -> None:
        """Let the clean-up remove the runs that are over: what they consumed is counted apart."""
        job = self.jobs[dag_id]
        for number, state in enumerate(job.states):
            if state == "over" and number not in job.forgotten:
                job.forgotten.add(number)
                job.past.update(job.runs[number])
                job.runs[number] = ()

    def kept(self) -> Mapping[str, int]:
        """Return how many queued events each job's schedule does not wait for."""
        counted: Counter[str] = Counter()
        for dag_id, job in self.jobs.items():
            for event in job.queue.values():
                counted[dag_id] += not self.is_waited_for(event, job.now and job.now.schedule)
        return {dag_id: number for dag_id, number in counted.items() if number}

    def wind(self, dag_id: str) -> bool:
        """Let a year pass on the job's clock; return whether it has one."""
        job = self.jobs[dag_id]
        job.tick_is_due |= job.clock is not None
        return job.clock is not None

    def check(self) -> None:
        for job in self.jobs.values():
            if job.now is not None and not job.paused:
                self._check(job, job.now)

    def _catch_up(self, job: JobState, now: ModelJob, at_once: int) -> None:
        """Let the job get what it still has to, so many events of its assets of now at a time."""
        left = [each for each in job.catchup or () if self.asked_of(self.events[each].asset, now.schedule)]
        job.catchup = None
        for at in range(0, len(left), at_once):
            for event in left[at : at + at_once]:
                if queued := self.queued(self.events[event], now.schedule):
                    job.queue[event] = queued
                    job.came[event] = 0
                    job.owed.add(event)
            if now.per_partition:
                continue
            last = left[at : at + at_once][-1]
            up_to = {event: queued for event, queued in sorted(job.queue.items()) if event <= last}
            if not up_to or not (now.each or self.is_met(now.schedule, up_to.values())):
                continue
            for run in pieces(list(up_to), 1 if now.each else now.max_events):
                self._make_with_common_key(job, run)

    def _check(self, job: JobState, now: ModelJob) -> None:
        self._catch_up(job, now, EVENTS_AT_ONCE)
        is_used = job.active >= now.max_active_runs
        waits_for_events = now.joint and not self.is_met(now.schedule, job.queue.values())
        ticks = self._tick(job, now, is_used=is_used, waits_for_events=waits_for_events)
        events = sorted(job.queue)
        has_schedule = now.schedule is not None or now.month is not None
        runs: list[tuple[int, ...]] = []
        if now.per_partition:
            self._check_partitions(job, now) if has_schedule else None
            runs = [()] * ticks
        elif now.each:
            runs = [(event,) for event in events] if has_schedule else []
            runs += [()] * ticks
        elif ticks or (not now.joint and not is_used and self.is_met(now.schedule, job.queue.values())):
            runs = pieces(events, now.max_events) or [()]
        for run in runs:
            self._make_with_common_key(job, run)

    def _make_with_common_key(self, job: JobState, run: tuple[int, ...]) -> None:
        keys = {self.events[event].key for event in run}
        self._make(job, run, keys.pop() if len(keys) == 1 else None)

    def _make(self, job: JobState, run: tuple[int, ...], key: str | None, flags: Flags = NO_FLAGS) -> None:
        for event in run:
            del job.queue[event]
        job.runs.append(run)
        job.keys.append(key)
        job.flags.append(flags)
        if job.now is not None and job.now.complete is not None and job.now.complete.again and job.now.complete.named:
            job.had.setdefault(key, set()).update(run)
        job.states.append("queued")

    def group_of(self, event: int, by: tuple[str, ...] | None) -> str | None:
        """Return the key of the run that the event belongs to."""
        key, parts = self.events[event].key, PARTS.get(self.events[event].asset)
        if key is None or (parts is None and by is None):
            return key
        values = DIVIDED[key]
        if parts is None or len(values) != len(parts):
            return None
        of_part = dict(zip(parts, values, strict=True))
        chosen = tuple(of_part.get(part, "") for part in by or parts)
        return JOINED[chosen] if all(chosen) else None

    def _check_partitions(self, job: JobState, now: ModelJob) -> None:
        groups: dict[str | None, list[int]] = {}
        for event in sorted(job.queue):
            groups.setdefault(self.group_of(event, now.by), []).append(event)
        busy = {key for key, state in zip(job.keys, job.states, strict=True) if state == "queued"}
        for key, events in groups.items():
            if key in busy:
                continue
            runs, flags = self._runs_of(job, now, key, events)
            if not runs and self._is_out_of_patience(job, now, key, events):
                runs, flags = [tuple(events)], self._flags_as_it_is(job, now, key)
            for run in runs:
                self._make(job, run, key, flags)
            if runs:
                job.closed.add(key)
                continue
            stranded = [each for each in events if not self.is_waited_for(job.queue[each], now.schedule)]
            self._make_alone(job, now, [each for each in stranded if job.waited(each)][: self.alone_at_once])

    def _is_out_of_patience(self, job: JobState, now: ModelJob, key: str | None, events: list[int]) -> bool:
        """Whether an incomplete partition is run as it is."""
        awaited = [job.waited(each) for each in events if self.is_waited_for(job.queue[each], now.schedule)]
        is_open = now.complete is None or now.complete.again or key not in job.closed
        return now.run_after and is_open and max(awaited, default=0) >= PATIENCE

    def _runs_of(
        self, job: JobState, now: ModelJob, key: str | None, events: list[int]
    ) -> tuple[list[tuple[int, ...]], Flags]:
        """Return the runs of a group that is due, and what they say of it."""
        awaited = [each for each in events if self.is_waited_for(job.queue[each], now.schedule)]
        if now.complete is None:
            met = self.is_met(now.schedule, [job.queue[each] for each in events])
            return (pieces(events, now.max_events) if met else []), NO_FLAGS
        if now.complete.again:
            delivery = self.delivery(job, now, key, events)
            return ([] if delivery is None else [delivery]), (True, False, key in job.closed)
        if key in job.closed:
            return (pieces(events, now.max_events) if awaited else []), (True, True, False)
        is_whole = self.is_complete(now.schedule, now.complete, job, events)
        return ([tuple(events)] if is_whole and self.have_come(now.complete, awaited) else []), (True, False, False)

    def delivery(self, job: JobState, now: ModelJob, key: str | None, events: list[int]) -> tuple[int, ...] | None:
        """Return the events up to the one that completes a delivery of a partition; None if none does."""
        assert now.complete is not None
        earlier = self.earlier_files(job, key) if key in job.closed else set()
        for size in range(1, len(events) + 1):
            some = events[:size]
            awaited = [each for each in some if self.is_waited_for(job.queue[each], now.schedule)]
            if key in job.closed:
                condition = self.of_what_comes(now.schedule, job, some)
                is_whole = condition is not None and self.is_complete(condition, now.complete, job, some)
                is_whole = is_whole and self.brings_values(now.schedule, now.complete, job, some)
            else:
                is_whole = self.is_complete(now.schedule, now.complete, job, some)
            if is_whole and self.have_come(now.complete, awaited, earlier):
                return tuple(some)
        return None

    def earlier_files(self, job: JobState, key: str | None) -> set[str]:
        """Return the files that earlier runs of a partition had, if no newer version of them was dropped."""
        newest: dict[str, bool] = {}
        had = job.had.get(key, set())
        for event in sorted(had | job.dropped):
            if (file := self.events[event].file) is not None:
                newest[file] = event not in job.dropped
        return {file for file, is_there in newest.items() if is_there}

    def of_what_comes(self, condition: Any, job: JobState, events: list[int]) -> Any:
        """Return the parts of a condition of which some event has come; None if there is none."""
        match condition:
            case {"all": parts} | {"any": parts}:
                some = [each for part in parts if (each := self.of_what_comes(part, job, events)) is not None]
                word = "all" if "all" in condition else "any"
                return {word: some} if some else None
        return condition if self.is_met(condition, [job.queue[each] for each in events]) else None

    def brings_values(self, condition: Any, complete: ModelComplete, job: JobState, events: list[int]) -> bool:
        """Whether an asset that has the part has come with its values, if values are needed."""
        return not complete.part or any(
            complete.part in PARTS.get(asset, ()) and self._has_come(asset, where, complete, job, events)
            for kind, name, where in names(condition)
            for asset in ({name} if kind == "asset" else self.resolved)
        )

    def have_come(self, complete: ModelComplete, awaited: list[int], earlier: Collection[str] = ()) -> bool:
        """Whether these events bring what a partition needs beside its condition. `earlier` files have come before."""
        of_events = [self.events[each] for each in awaited]
        if complete.marked:
            return any(event.says == MARKS for event in of_events)
        if complete.named:
            newest = {event.file: event.names for event in of_events if event.says == NAMES}
            came = {event.file for event in of_events} | {*earlier}
            return bool(newest) and all(names is not None and {*names} <= came for names in newest.values())
        items = {(self.events[each].asset, self.events[each].file or each) for each in awaited}
        return len(items) >= (complete.items or 0)

    def is_complete(self, condition: Any, complete: ModelComplete, job: JobState, events: list[int]) -> bool:
        match condition:
            case {"all": parts}:
                return all(self.is_complete(part, complete, job, events) for part in parts)
            case {"any": parts}:
                return any(self.is_complete(part, complete, job, events) for part in parts)
            case None:
                return False
        ((kind, name, where),) = names(condition)
        return any(
            self._has_come(asset, where, complete, job, events)
            for asset in ({name} if kind == "asset" else self.resolved)
        )

    def _has_come(self, asset: str, where: int, complete: ModelComplete, job: JobState, events: list[int]) -> bool:
        mine = [each for each in events if job.queue[each].asset == asset and where in job.queue[each].satisfied]
        if complete.part not in PARTS.get(asset, ()):
            return bool(mine)
        place, size = PARTS[asset].index(complete.part), len(PARTS[asset])
        divided = [DIVIDED[key] for each in mine if (key := self.events[each].key) is not None]
        return len({values[place] for values in divided if len(values) == size} & {*complete.values}) >= complete.needed

    def _tick(self, job: JobState, now: ModelJob, *, is_used: bool, waits_for_events: bool) -> int:
        if now.month is None:
            return 0
        if job.clock != now.month:
            job.clock, job.tick_is_due = now.month, False
            return 0
        if not job.tick_is_due or is_used:
            return 0
        if waits_for_events and now.month not in job.ticked:
            return 0
        job.tick_is_due = False
        is_new = now.month not in job.ticked
        job.ticked.add(now.month)
        return int(is_new)


def pieces(events: list[int], most: int) -> list[tuple[int, ...]]:
    return [tuple(events[at : at + most]) for at in range(0, len(events), most)]


def random_job(random: Random) -> ModelJob:
    kind = random.random()
    each, per_partition = kind < 0.2, kind > 0.6
    schedule = random.choice((*(WITH_EACH if each else SCHEDULES), None))
    month = random.randint(1, 12) if random.random() < 0.4 else None
    by, complete = random.choice(COMPLETE)
    return ModelJob(
        schedule=schedule,
        month=month,
        catchup=month is None and random.random() < 0.5,
        joint=month is not None and schedule is not None and not (each or per_partition) and random.random() < 0.5,
        each=each,
        max_events=random.choice((1, 2, 1000)),
        max_active_runs=random.choice((1, 2)),
        per_partition=per_partition,
        by=by if per_partition else None,
        complete=replace(complete, again=random.random() < 0.4) if per_partition and complete is not None else None,
        run_after=random.random() < 0.3,
    )


def random_configuration(random: Random, jobs: Collection[str] = JOBS) -> dict[str, ModelJob]:
    return {dag_id: random_job(random) for dag_id in jobs if random.random() < 0.9}


def random_event(random: Random, says: int | None = None) -> ModelEvent:
    says, key = random.randrange(len(EVENTS)) if says is None else says, random.choice((None, *DIVIDED))
    file = random.choice(MANIFESTS) if says == NAMES else None if says == MARKS else random.choice((None, *FILES))
    names = None
    if says == NAMES and random.random() < 0.9:
        names = tuple(random.sample(FILES, random.choice((0, 1, 1, 2))))
    return ModelEvent(asset=random.choice(ASSETS), says=says, key=key, file=file, names=names)


def random_history(random: Random, most: int = 30) -> Iterator[Action]:
    """Yield a history of up to so many actions that ends with everything due."""
    configuration = random_configuration(random, JOBS[:3])
    yield "reload", configuration
    for _ in range(random.randint(5, most)):
        kinds = (
            "event",
            "check",
            "reload",
            "pause",
            "resume",
            "end",
            "tick",
            "drop",
            "resolve",
            "restart",
            "remove run",
            "replay",
            "forget",
            "run left",
            "drop left",
            "age",
            "force",
            "take over",
        )
        kind = random.choices(kinds, (36, 20, 15, 4, 6, 12, 6, 2, 2, 3, 2, 10, 8, 5, 2, 8, 3, 3))[0]
        match kind:
            case "event":
                yield kind, random_event(random)
            case "resolve":
                yield kind, random.choice(ASSETS)
            case "reload":
                changed = random.sample(JOBS, random.randint(1, len(JOBS)))
                fresh = random_configuration(random)
                both = {dag_id: (fresh if dag_id in changed else configuration) for dag_id in JOBS}
                configuration = {dag_id: source[dag_id] for dag_id, source in both.items() if dag_id in source}
                yield kind, configuration
            case "check":
                how = random.random()
                killed = random.random() / 50 if how < 0.2 else None
                yield kind, (random.randint(1, 5), random.choice(("before", "after"))) if how > 0.85 else killed
            case "restart" | "take over":
                yield kind, None
            case "age":
                yield kind, random.sample(JOBS, random.randint(1, len(JOBS)))
            case "replay":
                dag_id, killed, include_dropped = random.choice(JOBS), random.random() < 0.4, random.random() < 0.3
                yield kind, (dag_id, random.random(), random.random(), include_dropped, killed)
            case _:
                yield kind, random.choice(JOBS)
