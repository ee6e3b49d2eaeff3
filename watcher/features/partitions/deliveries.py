"""When a partition that may be delivered again has its condition met: pure functions of what is queued.

A run takes the events up to the one that completed a delivery, so it matters at which event that is, whatever has come since and
whenever it is looked at. A delivery after the first is complete without the assets of which nothing has come again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from store.keys import Condition
from store.partition_keys import Completeness, QueuedKey
from watcher.features.partitions.completeness import complete_references
from watcher.scheduling.planning.conditions import Resolved, is_met
from watcher.scheduling.planning.plans import Waits


@dataclass(frozen=True, kw_only=True)
class ConditionSteps:
    """At which events what a delivery needs of its assets begins to have come, or ceases to: another asset may begin to come again."""

    events: Sequence[int]
    met: Sequence[bool]
    """Whether it has come from each of these events on."""

    def holds_at(self, event_id: int) -> bool:
        """Whether it has come once the events up to this one are there."""
        place = bisect_right(self.events, event_id)
        return place > 0 and self.met[place - 1]

    @property
    def first(self) -> int | None:
        """The first event at which it has come."""
        return next((event for event, is_met_here in zip(self.events, self.met, strict=True) if is_met_here), None)


def condition_steps(
    rows: Sequence[QueuedKey], waits: Waits, complete: Completeness, *, is_redelivery: bool
) -> ConditionSteps:
    """Return when the rows of a group have what a delivery needs of its assets: the condition, and all values of each asset."""
    first: dict[str, int] = {}
    for row in rows:
        first |= {each: min(row.first_event, first.get(each, row.first_event)) for each in row.references}
    come = complete_references(rows, complete)
    with_part = {each for row in rows if complete.part in row.parts for each in row.references}
    bringing = {each for each in with_part if waits.wait_for({each})}
    events = sorted({*first.values(), *come.values()})
    met = []
    for event in events:
        here = {name for name, at in come.items() if at <= event}
        condition = waits.condition
        if is_redelivery and condition is not None:
            condition = of_what_comes(condition, {name for name, at in first.items() if at <= event}, waits.aliases)
            here = here if not complete.part or here & bringing else set()
        met.append(condition is not None and is_met(condition, here, waits.aliases))
    return ConditionSteps(events=events, met=met)


def of_what_comes(condition: Condition, names: AbstractSet[str], aliases: Resolved) -> Condition | None:
    """Return the parts of a condition of which something has come again; None if nothing has. `names` are keys of references."""
    match condition:
        case {"all": parts}:
            return _of_parts("all", parts, names, aliases)
        case {"any": parts}:
            return _of_parts("any", parts, names, aliases)
    return condition if is_met(condition, names, aliases) else None


def _of_parts(word: str, parts: Sequence[Any], names: AbstractSet[str], aliases: Resolved) -> Mapping[str, Any] | None:
    coming = [part for each in parts if (part := of_what_comes(each, names, aliases)) is not None]
    return {word: coming} if coming else None
