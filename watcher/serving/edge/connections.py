"""Who is connected, who waits for whom, and who has to go when it is too many or takes too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Protocol

LINGERS_FOR: Final = timedelta(seconds=2)
"""What a refused client still sends is thrown away for so long: closing at once would take the answer from it."""
_NETWORK_OF_A_CLIENT: Final = 64
"""Bits of an IPv6 address that one client cannot choose."""


class Phase(Enum):
    """What a connection waits for."""

    HEADER = auto()
    """The client's request line and headers."""
    BODY = auto()
    """The client's body."""
    ANSWER = auto()
    """Us: a request is complete and being answered."""
    IDLE = auto()
    """The client's next request."""
    LINGER = auto()
    """The client has its last answer and is to close."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Of one server; the defaults are those of `settings.api.limits`."""

    header_bytes: int = 64_000
    header_timeout: timedelta = timedelta(seconds=10)
    body_timeout: timedelta = timedelta(seconds=60)
    idle_timeout: timedelta = timedelta(seconds=75)
    connections: int = 500
    per_address: int = 100
    trusted_proxies: tuple[str, ...] = ()

    @property
    def seconds(self) -> Mapping[Phase, float]:
        """How long a connection may stay in a phase."""
        return {
            Phase.HEADER: self.header_timeout.total_seconds(),
            Phase.BODY: self.body_timeout.total_seconds(),
            Phase.IDLE: self.idle_timeout.total_seconds(),
            Phase.LINGER: LINGERS_FOR.total_seconds(),
        }


class Connection(Protocol):
    """A connection as the others see it."""

    phase: Phase
    address: str | None

    def make_room(self) -> None:
        """End at once: it has waited for its client longer than the others, and another one is at the door."""

    def expire(self) -> None:
        """End: it has been in its phase for too long."""

    def drop_if_stalled(self, seconds: float) -> None:
        """End at once if the client has not read what it was sent for so long."""


def client_of(address: str) -> str:
    """Whom an address counts for: itself, or the network that an IPv6 client chooses its address from."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _NETWORK_OF_A_CLIENT), strict=False))
    return str(parsed)


def _parsed(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address.partition("%")[0])
    return (isinstance(parsed, IPv6Address) and parsed.ipv4_mapped) or parsed


class Connections:
    """All connections of a server. A request that is being answered is never cut for another's sake."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._proxies = [ip_network(network) for network in limits.trusted_proxies]
        self._seconds = limits.seconds
        self._open: dict[Connection, str | None] = {}
        """Each with whom it counts for; None is a trusted proxy, or a socket without addresses."""
        self._counts: dict[str | None, int] = {}
        self._since: dict[Connection, float] = {}
        """When those that wait for their clients began to, longest first."""

    def admit(self, connection: Connection, now: float) -> bool:
        """Whether there is room; made, where needed and possible, by ending the one that has waited longest."""
        client = self._client(connection.address)
        if client is not None and self._counts.get(client, 0) >= self.limits.per_address:
            has_room = self._make_room(client)
        else:
            has_room = len(self._open) < self.limits.connections or self._make_room(None)
        if has_room:
            self._open[connection] = client
            self._counts[client] = self._counts.get(client, 0) + 1
            self._since[connection] = now
        return has_room

    def _client(self, address: str | None) -> str | None:
        if address is None or any(_parsed(address) in network for network in self._proxies):
            return None
        return client_of(address)

    def _make_room(self, client: str | None) -> bool:
        """Of this client's connections, or of all."""
        longest = next((each for each in self._since if client is None or self._open[each] == client), None)
        if longest is None:
            return False
        self.forget(longest)
        longest.make_room()
        return True

    def forget(self, connection: Connection) -> None:
        """It is closed; doing so again does nothing."""
        if connection not in self._open:
            return
        client = self._open.pop(connection)
        self._since.pop(connection, None)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]

    def waits(self, connection: Connection, now: float) -> None:
        """From now on for its client."""
        if connection in self._open:
            self._since.pop(connection, None)
            self._since[connection] = now

    def is_answered(self, connection: Connection) -> None:
        """From now on it waits for us."""
        self._since.pop(connection, None)

    def close_overdue(self, now: float) -> None:
        """End who has taken longer than its phase may last; to be called about twice a second."""
        for connection, since in list(self._since.items()):
            if now - since > self._seconds[connection.phase]:
                connection.expire()
        for connection in self._open.keys() - self._since.keys():
            connection.drop_if_stalled(self._seconds[Phase.IDLE])
