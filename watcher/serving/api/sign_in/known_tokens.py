"""Whom tokens spoke for a moment ago: asking the database costs as much as what most requests are about."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from store.processes.tokens import Identity, digest

TRUSTED_FOR: Final = 2.0
"""Seconds. A token that another process revokes opens things here for so long."""
_MOST: Final = 1000


@dataclass(kw_only=True, eq=False)
class KnownTokens:
    """Of one process. Times are `time.monotonic`'s; tokens are kept as digests only."""

    trusted_for: float = 0.0
    _known: OrderedDict[str, tuple[float, Identity]] = field(default_factory=OrderedDict)

    def get(self, token: str, now: float) -> Identity | None:
        """Whom it spoke for when the database was asked, if that is recent; its use is no news any more."""
        until, identity = self._known.get(digest(token), (now, None))
        return identity if until > now else None

    def put(self, token: str, identity: Identity, now: float) -> None:
        """The database says so now."""
        self._known[digest(token)] = (now + self.trusted_for, replace(identity, use_is_news=False))
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Tokens have changed: ask the database."""
        self._known.clear()
