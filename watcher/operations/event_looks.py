"""How many events came between two looks at the database, and from where, kept in the home for when the database goes back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MOST_KEPT: Final = 10_000
"""The looks that are kept, the newest ones. A look that saw no event is none."""


@dataclass(frozen=True, kw_only=True)
class EventLook:
    """The numbers of events by origin, a trigger's name for those of watchers, with ids above `after` up to `up_to`."""

    after: int
    up_to: int
    origins: Mapping[str, int]

    def beyond(self, newest: int) -> Mapping[str, int]:
        """Return the numbers of events with ids above `newest`, as if the origins were spread evenly."""
        share = min((self.up_to - newest) / (self.up_to - self.after), 1.0)
        return {origin: round(events * share) for origin, events in self.origins.items()}

    def to_json(self) -> str:
        return json.dumps({"after": self.after, "up_to": self.up_to, "origins": dict(self.origins)})


@dataclass(kw_only=True, eq=False)
class EventLooks:
    """The file of the looks, a line for each. Nothing is synced: a machine that fails may lose the newest ones."""

    file: Path
    _to_trim: int = field(default=0, init=False)
    """The number of looks to add before the oldest ones are dropped."""

    def add(self, look: EventLook) -> None:
        """Append a look. Raises `OSError`."""
        if not self._to_trim:
            self._keep(self.all()[-MOST_KEPT:])
            self._to_trim = MOST_KEPT
        self._to_trim -= 1
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{look.to_json()}\n")

    def all(self) -> Sequence[EventLook]:
        """Return the looks, the oldest first. Those that cannot be read, or that overlap an earlier one, are left out."""
        looks: list[EventLook] = []
        try:
            lines = self.file.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        for line in lines:
            look = _parsed(line)
            if look is not None and (not looks or look.after >= looks[-1].up_to):
                looks.append(look)
        return looks

    def beyond(self, newest: int) -> tuple[Mapping[str, int], int]:
        """Return about how many events came with ids above `newest`, by origin, and the id above which that is known."""
        looks = [look for look in self.all() if look.up_to > newest]
        total = Counter[str]()
        for look in looks:
            total.update(look.beyond(newest))
        return {origin: events for origin, events in total.items() if events}, looks[0].after if looks else -1

    def go_back(self, newest: int) -> None:
        """Forget the looks at events with ids above `newest`, which will be given again. Raises `OSError`."""
        self._keep([look for look in self.all() if look.up_to <= newest])

    def _keep(self, looks: Sequence[EventLook]) -> None:
        new = self.file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text("".join(f"{look.to_json()}\n" for look in looks), encoding="utf-8")
        new.replace(self.file)


def _parsed(line: str) -> EventLook | None:
    try:
        stored = json.loads(line)
        after, up_to = int(stored["after"]), int(stored["up_to"])
        origins = {str(origin): int(events) for origin, events in stored["origins"].items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return EventLook(after=after, up_to=up_to, origins=origins) if after < up_to else None
