"""The open connections: what each waits for, and which are closed when there are too many or they take too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Protocol

LINGERS_FOR: Final = timedelta(seconds=2)
"""How long data of a refused client is read and discarded. Closing at once would make the client lose the answer."""
_NETWORK_OF_A_CLIENT: Final = 64
"""Leading bits of an IPv6 address, which one client cannot choose freely."""


class Phase(Enum):
    """The phase of a connection: what it waits for. Each phase except `ANSWER` has a time limit."""

    HEADER = auto()
    """The client's request line and headers."""
    BODY = auto()
    """The client's body."""
    ANSWER = auto()
    """The application: a request is complete and is being answered."""
    IDLE = auto()
    """The client's next request."""
    LINGER = auto()
    """The client: it has its last answer and should close the connection."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The limits of one server. The defaults are those of `settings.api.limits`."""

    header_bytes: int = 64_000
    header_timeout: timedelta = timedelta(seconds=10)
    body_timeout: timedelta = timedelta(seconds=60)
    idle_timeout: timedelta = timedelta(seconds=75)
    connections: int = 500
    per_address: int = 100
    trusted_proxies: tuple[str, ...] = ()

    @property
    def seconds(self) -> Mapping[Phase, float]:
        """How many seconds a connection may stay in each phase."""
        return {
            Phase.HEADER: self.header_timeout.total_seconds(),
            Phase.BODY: self.body_timeout.total_seconds(),
            Phase.IDLE: self.idle_timeout.total_seconds(),
            Phase.LINGER: LINGERS_FOR.total_seconds(),
        }


class Connection(Protocol):
    """A connection as `Connections` uses it."""

    phase: Phase
    address: str | None

    def make_room(self) -> None:
        """Close at once, to make room for another connection: this one has waited for its client longest."""

    def expire(self) -> None:
        """Close, with an answer if one is due: the connection has been in its phase for too long."""

    def drop_if_stalled(self, seconds: float) -> None:
        """Close at once if the client has read nothing of what it was sent for this many seconds."""


def client_of(address: str) -> str:
    """Return the client that an address counts for: the address, or the network from which an IPv6 client chooses its own."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _NETWORK_OF_A_CLIENT), strict=False))
    return str(parsed)


def _parsed(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address.partition("%")[0])
    return (isinstance(parsed, IPv6Address) and parsed.ipv4_mapped) or parsed


class Connections:
    """All connections of a server. A request that is being answered is never cut off to make room for another one."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._proxies = [ip_network(network) for network in limits.trusted_proxies]
        self._seconds = limits.seconds
        self._open: dict[Connection, str | None] = {}
        """The client of each connection. None stands for a trusted proxy, or for a socket without an address."""
        self._counts: dict[str | None, int] = {}
        self._since: dict[Connection, float] = {}
        """The time since when each connection has waited for its client, the longest wait first."""

    def admit(self, connection: Connection, now: float) -> bool:
        """Return whether there is room. If necessary and possible, close the connection that has waited longest."""
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
        """Close the connection that has waited longest, of this client or of all. Return whether there was one."""
        longest = next((each for each in self._since if client is None or self._open[each] == client), None)
        if longest is None:
            return False
        self.forget(longest)
        longest.make_room()
        return True

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection. Removing it again does nothing."""
        if connection not in self._open:
            return
        client = self._open.pop(connection)
        self._since.pop(connection, None)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]

    def waits(self, connection: Connection, now: float) -> None:
        """Note that the connection waits for its client from now on."""
        if connection in self._open:
            self._since.pop(connection, None)
            self._since[connection] = now

    def is_answered(self, connection: Connection) -> None:
        """Note that the connection waits for the application from now on."""
        self._since.pop(connection, None)

    def close_overdue(self, now: float) -> None:
        """Close the connections that exceed the time limit of their phase. Call it about twice a second."""
        for connection, since in list(self._since.items()):
            if now - since > self._seconds[connection.phase]:
                connection.expire()
        for connection in self._open.keys() - self._since.keys():
            connection.drop_if_stalled(self._seconds[Phase.IDLE])
