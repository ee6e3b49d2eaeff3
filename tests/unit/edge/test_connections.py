"""When there are too many connections, the one that has waited longest for its client is closed, and never one being answered."""

from __future__ import annotations

from datetime import timedelta

import pytest

from watcher.serving.edge.connections import ConnectionLimits, Connections, Phase, client_of


class Client:
    def __init__(self, connections: Connections, address: str | None, now: float = 0) -> None:
        self.phase, self.address, self.ended = Phase.HEADER, address, ""
        self.connections = connections
        self.admitted = connections.admit(self, now)

    def move(self, phase: Phase, now: float) -> None:
        self.phase = phase
        if phase is Phase.ANSWER:
            self.connections.is_answered(self)
        else:
            self.connections.waits(self, now)

    def make_room(self) -> None:
        self.ended = "for another"

    def expire(self) -> None:
        self.ended = f"after {self.phase.name}"
        self.connections.forget(self)

    def drop_if_stalled(self, seconds: float) -> None:
        self.ended = f"stalled {seconds:g}"


def connections(**limits: object) -> Connections:
    return Connections(ConnectionLimits(**limits))  # type: ignore[arg-type]


def ended(*clients: Client) -> list[str]:
    return [client.ended for client in clients]


def test_the_longest_waiting_connection_of_an_address_makes_room() -> None:
    all_of_them = connections(per_address=2)
    other, first, second = (Client(all_of_them, address) for address in ("10.0.0.9", "10.0.0.1", "10.0.0.1"))
    first.move(Phase.IDLE, 1)
    third = Client(all_of_them, "10.0.0.1", 2)
    assert third.admitted
    assert ended(other, first, second, third) == ["", "", "for another", ""]
    assert Client(all_of_them, "10.0.0.1", 3).admitted
    assert ended(other, first, third) == ["", "for another", ""]


def test_the_longest_waiting_connection_of_all_makes_room() -> None:
    all_of_them = connections(connections=2)
    first, second = Client(all_of_them, "10.0.0.1"), Client(all_of_them, "10.0.0.2", 1)
    first.move(Phase.ANSWER, 2)
    assert Client(all_of_them, "10.0.0.3", 3).admitted
    assert ended(first, second) == ["", "for another"]


def test_an_answered_connection_is_never_closed_for_a_new_one() -> None:
    all_of_them = connections(connections=3, per_address=1)
    first = Client(all_of_them, "10.0.0.1")
    first.move(Phase.ANSWER, 1)
    assert not Client(all_of_them, "10.0.0.1", 2).admitted
    first.move(Phase.IDLE, 3)
    assert Client(all_of_them, "10.0.0.1", 4).admitted
    assert ended(first) == ["for another"]


def test_a_closed_connection_frees_its_place() -> None:
    all_of_them = connections(connections=1, per_address=1)
    for _ in range(3):
        client = Client(all_of_them, "10.0.0.1")
        client.move(Phase.ANSWER, 1)
        all_of_them.forget(client)
        all_of_them.forget(client)
        client.move(Phase.IDLE, 2)
    assert client.admitted


def test_trusted_proxies_may_have_many_connections() -> None:
    all_of_them = connections(per_address=1, connections=4, trusted_proxies=("10.0.0.0/8", "fd00::/8"))
    clients = [Client(all_of_them, address) for address in ("10.0.0.1", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1")]
    assert ended(*clients) == [""] * 4
    assert Client(all_of_them, "192.0.2.1", 1).admitted
    assert ended(*clients) == ["for another", "", "", ""]


@pytest.mark.parametrize(
    ("phase", "seconds"), [(Phase.HEADER, 1.0), (Phase.BODY, 2.0), (Phase.IDLE, 3.0), (Phase.LINGER, 2.0)]
)
def test_each_phase_has_a_time_limit(phase: Phase, seconds: float) -> None:
    times = {"header_timeout": 1, "body_timeout": 2, "idle_timeout": 3}
    all_of_them = connections(**{name: timedelta(seconds=time) for name, time in times.items()})
    client = Client(all_of_them, "10.0.0.1")
    client.move(phase, 10)
    all_of_them.close_overdue(10 + seconds)
    assert ended(client) == [""]
    all_of_them.close_overdue(10.1 + seconds)
    assert ended(client) == [f"after {phase.name}"]


def test_an_answer_has_no_time_limit_but_its_client_has_to_read_it() -> None:
    all_of_them = connections(idle_timeout=timedelta(seconds=3))
    client = Client(all_of_them, "10.0.0.1")
    client.move(Phase.ANSWER, 0)
    all_of_them.close_overdue(1e9)
    assert ended(client) == ["stalled 3"]


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_address_counts_for_its_client(address: str, client: str) -> None:
    assert client_of(address) == client
