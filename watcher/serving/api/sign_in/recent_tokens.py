"""The tokens that a process received lately: the subjects of valid ones, and the number of refused ones per client."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import Final

from store.processes.tokens import Identity, digest
from watcher.serving.edge.connections import client_of

TRUSTED_FOR: Final = 2.0
"""Seconds for which a valid token is trusted. A token that another process revokes still works here for this long."""
_MOST_TOKENS: Final = 1000
MOST_FAILURES: Final = 20
MINUTE: Final = 60.0
_MOST_CLIENTS: Final = 10_000
"""Clients whose failures are remembered. The client that failed longest ago is forgotten first."""


@dataclass(kw_only=True, eq=False)
class KnownTokens:
    """The valid tokens of one process, because asking the database costs as much as most requests do.

    Times are those of `time.monotonic`. Tokens are kept as digests only.
    """

    trusted_for: float = 0.0
    _known: OrderedDict[str, tuple[float, Identity]] = field(default_factory=OrderedDict)

    def get(self, token: str, now: float) -> Identity | None:
        """Return the token's identity if the database confirmed it recently. Its use is already recorded."""
        until, identity = self._known.get(digest(token), (now, None))
        return identity if until > now else None

    def put(self, token: str, identity: Identity, now: float) -> None:
        """Remember an identity that the database has confirmed at the time `now`."""
        self._known[digest(token)] = (now + self.trusted_for, replace(identity, use_is_news=False))
        if len(self._known) > _MOST_TOKENS:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Forget all tokens, because some have changed. The next request of each asks the database."""
        self._known.clear()


class Failures:
    """The refused tokens of the last minute, by client. Times are those of `time.monotonic`."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str, now: float) -> float | None:
        """Count a failure. If there are too many, do not count it and return the seconds to wait."""
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
    except ValueError:  # not an IP address
        return address
