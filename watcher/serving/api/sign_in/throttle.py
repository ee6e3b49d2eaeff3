"""How often each client's tokens were refused in the last minute."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from watcher.serving.edge.connections import client_of

MOST_FAILURES: Final = 20
MINUTE: Final = 60.0
_MOST_CLIENTS: Final = 10_000
"""Whose failures are remembered; the one that failed longest ago is forgotten first."""


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
