"""Failures are forgotten after a minute; who has failed too often waits for the oldest of them to be."""

from __future__ import annotations

import pytest

from watcher.serving.api.sign_in.throttle import MINUTE, MOST_FAILURES, Failures


def test_so_many_in_a_minute_and_then_one_for_each_that_is_forgotten() -> None:
    failures = Failures()
    for number in range(MOST_FAILURES):
        assert failures.add("192.0.2.1", float(number)) is None
    assert failures.add("192.0.2.1", 30.0) == pytest.approx(MINUTE - 30)
    assert failures.add("192.0.2.2", 30.0) is None
    assert failures.add("192.0.2.1", MINUTE) is None
    assert failures.add("192.0.2.1", MINUTE) == pytest.approx(1)
    assert failures.add("192.0.2.1", 3 * MINUTE) is None


def test_the_addresses_of_one_network_fail_together() -> None:
    failures = Failures()
    answers = [failures.add(f"2001:db8::{number:x}", 0.0) for number in range(MOST_FAILURES + 1)]
    assert answers == [None] * MOST_FAILURES + [MINUTE]
    assert failures.add("not an address", 0.0) is None


def test_those_who_are_too_many_to_remember_are_forgotten_first_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watcher.serving.api.sign_in.throttle._MOST_CLIENTS", 2)
    failures = Failures()
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
        failures.add(address, 0.0)
    assert list(failures._of) == ["192.0.2.1", "192.0.2.3"]
