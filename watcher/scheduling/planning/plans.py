"""Which runs a job's queue makes now: pure functions of the queue, the schedule and the clock.

Deterministic and independent of load: the same rows at the same time give the same runs, in any process, however often it
checks. A check reads the queued assets only. The events themselves are read once they are due to become runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from store.keys import Batching, Condition
from store.references import is_awaited
from watcher.scheduling.planning.conditions import Resolved, is_met


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run to be made of exactly these events. `completed_by` is the event that completed the condition.

    With a `tick` the clock starts the run, whatever is queued. A run that only the clock starts has no events.
    """

    event_ids: Sequence[int] = ()
    completed_by: int | None = None
    tick: datetime | None = None
    partition_key: str | None = None
    """The one that all its events have."""
    of_feature: Mapping[str, Any] = field(default_factory=dict)
    """What the planner says of it: JSON values by the names that jobs read."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Runs to make now; whether more of the queue is due at once; when the clock alone requires a check (None: never).

    `steps`: a step of a feature was carried out. `is_partial`: the time to check again is that of a part of
    the queue, and what comes may be due earlier.
    """

    runs: Sequence[PlannedRun] = ()
    has_rest: bool = False
    steps: bool = False
    is_partial: bool = False
    check_again_in: timedelta | None = None

    @property
    def collects(self) -> bool:
        """Whether nothing of the queue is due before the time to check again, whatever comes."""
        return self.check_again_in is not None and not self.is_partial


@dataclass(frozen=True, kw_only=True)
class Waits:
    """What a job waits for: a condition on events (None: only a time), and what its aliases have resolved to.

    `takes_each`: it takes each queued event by itself, which includes those that an earlier schedule waited for.
    """

    condition: Condition | None
    aliases: Resolved = field(default_factory=dict)
    takes_each: bool = False

    def wait_for(self, references: AbstractSet[str]) -> bool:
        """Whether some part of the condition needs events that satisfy one of these references, which are keys."""
        return is_awaited(self.condition, references, self.aliases)


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many unfinished runs a job has, and how many it may have at a time."""

    active: int
    allowed: int

    @property
    def is_used(self) -> bool:
        return self.active >= self.allowed


MOST_EVENTS: Final = 10_000
"""Most queued events that become runs in one transaction, unless one run takes more. The rest follows in the next one."""
MOST_RUNS: Final = 1_000
"""Most runs made in one transaction. The rest follows in the next one."""


def completing(first_events: Mapping[str, int], waits: Waits) -> int | None:
    """Return the event that completes the condition, given the first queued event of each asset; None if none does yet.

    Events of assets that the condition does not name, from before a change of the schedule, complete nothing.
    """
    if waits.takes_each:
        return min(first_events.values(), default=None)
    assets: set[str] = set()
    for asset, event_id in sorted(first_events.items(), key=itemgetter(1)):
        assets.add(asset)
        if waits.condition is not None and is_met(waits.condition, assets, waits.aliases):
            return event_id
    return None


def is_due(
    completed_by: int | None,
    batching: Batching,
    capacity: Capacity,
    *,
    ticks: Sequence[datetime] = (),
    joint: bool = False,
) -> bool:
    """Whether the queued events become runs, once they have been collected for long enough.

    A joint schedule needs a tick and the condition. With `each` every event has its own run. Otherwise a tick takes the queued events, even before the condition is met.
    Without a tick the job keeps collecting while it has as many runs as it may: the end of a run triggers a check.
    """
    if joint:
        return bool(ticks) and completed_by is not None
    if batching.mode == "each":
        return completed_by is not None
    return bool(ticks) or (completed_by is not None and not capacity.is_used)


def collects(batching: Batching) -> bool:
    """Whether the times of the queued events matter."""
    return batching.mode != "each" and batching.debounce > timedelta(0)


def remaining(oldest: datetime, newest: datetime, batching: Batching, now: datetime) -> timedelta:
    """How much longer to collect. A negative age (a clock was set back) counts as due."""
    since_last, since_first = now - newest, now - oldest
    if since_last < timedelta(0) or since_first < timedelta(0):
        return timedelta(0)
    return min(batching.debounce - since_last, batching.max_wait - since_first)


def most_at_once(batching: Batching) -> int:
    """The most events that one transaction turns into runs: a multiple of a run's events, and at least those of one run."""
    per_run = _events_per_run(batching)
    return max(1, min(MOST_RUNS, MOST_EVENTS // per_run)) * per_run


def runs_of(event_ids: Sequence[int], completed_by: int | None, batching: Batching) -> Sequence[PlannedRun]:
    """The runs of these events, given in order. With `completed_by` None a tick takes them before the condition is met."""
    per_run = _events_per_run(batching)
    pieces = (event_ids[start : start + per_run] for start in range(0, len(event_ids), per_run))
    if completed_by is None:
        return [PlannedRun(event_ids=piece) for piece in pieces]
    return [
        PlannedRun(event_ids=piece, completed_by=completed_by if completed_by in piece else piece[-1])
        for piece in pieces
    ]


def with_keys(runs: Sequence[PlannedRun], keys: Mapping[int, str | None]) -> Sequence[PlannedRun]:
    """The runs, each with the partition key that all its events have: None where they have none, or several."""
    return [replace(run, partition_key=_common({keys[event_id] for event_id in run.event_ids})) for run in runs]


def _common(keys: set[str | None]) -> str | None:
    return keys.pop() if len(keys) == 1 else None


def with_ticks(runs: Sequence[PlannedRun], ticks: Sequence[datetime], batching: Batching) -> Sequence[PlannedRun]:
    """Add a run for each due tick. The first one takes the events of the first run, unless the mode takes no ticks."""
    if batching.takes_no_ticks or not ticks:
        return [*runs, *(PlannedRun(tick=tick) for tick in ticks)]
    first, *rest = runs or [PlannedRun()]
    return [replace(first, tick=ticks[0]), *rest, *(PlannedRun(tick=tick) for tick in ticks[1:])]


def _events_per_run(batching: Batching) -> int:
    return 1 if batching.mode == "each" else batching.max_events
