"""When a partition is complete, and what it lacks until then: pure functions of what is queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from store.partition_keys import Completeness, QueuedKey, divided


def complete_references(rows: Sequence[QueuedKey], complete: Completeness | None) -> Mapping[str, int]:
    """Return the keys of the references of which a group has all events, each with the event that completed it.

    One to an asset that has not the part of which values are listed needs one event.
    """
    events: dict[str, int] = {}
    for reference in sorted({each for row in rows for each in row.references}):
        mine = [row for row in rows if reference in row.references]
        if complete is None or complete.part not in mine[0].parts:
            events[reference] = min(row.first_event for row in mine)
        elif len(came := sorted(_first_events(mine, complete).values())) >= complete.needed:
            events[reference] = came[complete.needed - 1]
    return events


def _first_events(rows: Sequence[QueuedKey], complete: Completeness) -> Mapping[str, int]:
    """Return the listed values of the part that have come, each with its first event. The rows are those of one asset."""
    first: dict[str, int] = {}
    for row in rows:
        values = [] if row.key is None else divided(row.key)
        value = values[row.parts.index(complete.part)] if len(values) == len(row.parts) else ""
        if value in complete.values:
            first[value] = min(row.first_event, first.get(value, row.first_event))
    return first


def missing_values(reference: str, rows: Sequence[QueuedKey], complete: Completeness | None) -> str:
    """Return which values a reference lacks, to follow its name; '' if none of its events has come."""
    mine = [row for row in rows if reference in row.references]
    if complete is None or not complete.values or not mine:
        return ""
    came = _first_events(mine, complete)
    number = "" if complete.at_least is None else f"{complete.needed - len(came)} of "
    return f" with {complete.part} {number}{', '.join(value for value in complete.values if value not in came)}"
