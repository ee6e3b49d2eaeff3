"""What this process remembers of the tokens it was sent lately: who the valid ones were, and how often others were refused."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import Final

from store.processes.tokens import Identity, digest
from watcher.serving.edge.connections import client_of

TRUSTED_FOR: Final = 2.0
"""Seconds. A token that another process revokes opens things here for so long."""
_MOST_TOKENS: Final = 1000
MOST_FAILURES: Final = 20
MINUTE: Final = 60.0
_MOST_CLIENTS: Final = 10_000
"""Whose failures are remembered; the one that failed longest ago is forgotten first."""


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
        if len(self._known) > _MOST_TOKENS:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Tokens have changed: ask the database."""
        self._known.clear()


class Failures:
    """Of the last minute, by client. Times are `time.monotonic`'s."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str, now: float) -> float | None:
        """Count one; returns the seconds to wait when it is one too many, which does not count."""
        client = _client(address)
        times = self._of.setdefault(client, deque())
        self._of.move_to_end(client)
        if len(self._of) > _MOST_CLIENTS:
            self._of.popitem(last=False)
        while times and now - times[0] >= MINUTE:
            times.popleft()
        if len(times) >= MOST_FAILURES:
            return MINUTE - (now - times[0])
        times.append(now)
        return None


def _client(address: str) -> str:
    try:
        return client_of(address)
    except ValueError:  # no socket's
        return address
