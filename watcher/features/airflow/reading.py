"""Finds what is new among events that become visible out of order. Pure.

Airflow stamps an event and commits it later, so an event with an earlier time may appear after a later one. Each poll
therefore begins `lateness` before the newest time for which everything visible has certainly been read. It emits the
events that were not seen yet. This is exact if and only if an event becomes visible within `lateness` of its timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar


class Stamped(Protocol):
    """An event with an id and a time."""

    @property
    def id(self) -> int:
        """The id by which the event is recognized."""

    @property
    def timestamp(self) -> datetime:
        """The time of the event by Airflow's clock."""


E = TypeVar("E", bound=Stamped)


@dataclass(frozen=True, kw_only=True)
class AirflowReading:
    """How far reading has come. `newest` is None before any event was seen. `seen` maps ids to timestamps."""

    newest: datetime | None
    seen: Mapping[int, datetime] = field(default_factory=dict)

    @property
    def latest(self) -> datetime | None:
        """The newest time of all events seen."""
        return max(self.seen.values(), default=self.newest)

    def since(self, lateness: timedelta) -> datetime | None:
        """Return the time at which a poll begins. None: it begins with the first event that exists."""
        return None if self.newest is None else self.newest - lateness

    def unseen(self, page: Iterable[E]) -> Sequence[E]:
        """Return the new events of a page, in order.

        A known id with another time is a new event: it comes from another Airflow, or from its new database.
        """
        new = {event.id: event for event in page if self.seen.get(event.id) != event.timestamp}
        return sorted(new.values(), key=lambda event: (event.timestamp, event.id))

    def with_seen(self, events: Iterable[Stamped]) -> AirflowReading:
        """Return the reading after these events were emitted."""
        return replace(self, seen={**self.seen, **{event.id: event.timestamp for event in events}})

    def after_poll(self, before: AirflowReading, pages: int, lateness: timedelta) -> AirflowReading:
        """Return the reading after a whole poll that began at `before`.

        An event that becomes visible after a poll of one page becomes visible after everything that the poll saw. While
        several pages are read, an event may become visible in a page that was already read. Then only what was seen before
        the poll is certain.
        """
        newest = self.latest if pages == 1 else before.latest
        if newest is None or (self.newest is not None and newest <= self.newest):
            return self
        seen = {event_id: time for event_id, time in self.seen.items() if time >= newest - lateness}
        return AirflowReading(newest=newest, seen=seen)
