"""What is known of a watcher's options without knowing its trigger."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol, runtime_checkable


@runtime_checkable
class WatcherFacts(Protocol):
    """What the options of a watcher say to those who do not know its trigger: `triggers.options.Facts`."""

    @property
    def starts_now(self) -> bool:
        """Whether items from before the first position are not reported."""

    @property
    def further_assets(self) -> tuple[str, ...]:
        """The names of the assets, besides the watcher's own, that its events may be of."""

    @property
    def parts(self) -> tuple[str, ...] | None:
        """The names of the parts of its events' partition keys; None: it names none."""

    @property
    def cleaned_after(self) -> timedelta | None:
        """How long files stay after all jobs have loaded them. None: for ever."""

    @property
    def names_versions(self) -> bool:
        """Whether its events name versions of files."""

    @property
    def has_slot(self) -> bool:
        """Whether it reads from a replication slot of its own."""
