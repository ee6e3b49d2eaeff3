"""What is new among events that become visible out of order: pure.

Airflow stamps an event and commits it later, so events with earlier times appear behind later ones. Each look therefore
begins `lateness` before the newest time of which it is certain that everything visible then has been read, and tells the
events that were not seen. Exact if and only if an event becomes visible within `lateness` of its timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar


class Stamped(Protocol):
    """An event, as far as it matters here."""

    @property
    def id(self) -> int:
        """By which it is known again."""

    @property
    def timestamp(self) -> datetime:
        """By Airflow's clock."""


E = TypeVar("E", bound=Stamped)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Where reading stands: `newest` is None while no event was seen; `seen` are timestamps by id."""

    newest: datetime | None
    seen: Mapping[int, datetime] = field(default_factory=dict)

    @property
    def latest(self) -> datetime | None:
        """The newest time that was seen at all."""
        return max(self.seen.values(), default=self.newest)

    def since(self, lateness: timedelta) -> datetime | None:
        """Where a look begins; None: with the first event there is."""
        return None if self.newest is None else self.newest - lateness

    def unseen(self, page: Iterable[E]) -> Sequence[E]:
        """What of a page is new, in order. An id that came with another time is another Airflow's, or its new database's."""
        new = {event.id: event for event in page if self.seen.get(event.id) != event.timestamp}
        return sorted(new.values(), key=lambda event: (event.timestamp, event.id))

    def with_seen(self, events: Iterable[Stamped]) -> Reading:
        """After these were told."""
        return replace(self, seen={**self.seen, **{event.id: event.timestamp for event in events}})

    def after_look(self, before: Reading, pages: int, lateness: timedelta) -> Reading:
        """After a whole look that found reading at `before`.

        What becomes visible after a look of one page has been made becomes visible after all that it saw. While several
        pages are read, something may become visible in one that was read already: then only what was seen before the
        look is certain.
        """
        newest = self.latest if pages == 1 else before.latest
        if newest is None or (self.newest is not None and newest <= self.newest):
            return self
        seen = {event_id: time for event_id, time in self.seen.items() if time >= newest - lateness}
        return Reading(newest=newest, seen=seen)
