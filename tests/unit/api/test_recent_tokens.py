"""The tokens that a process remembers, on a simulated clock: valid ones for a moment, refused ones for a minute."""

from __future__ import annotations

import pytest

from store.processes.tokens import Identity
from watcher.serving.api.sign_in import recent_tokens
from watcher.serving.api.sign_in.recent_tokens import MINUTE, MOST_FAILURES, Failures, KnownTokens

ANN = Identity(token_id="1", subject="ann", role="viewer", use_is_news=True)


def test_a_token_is_known_while_it_is_trusted_and_its_use_is_recorded() -> None:
    known = KnownTokens(trusted_for=2.0)
    assert known.get("aw_a", 10.0) is None
    known.put("aw_a", ANN, 10.0)
    assert known.get("aw_a", 11.9) == Identity(token_id="1", subject="ann", role="viewer")
    assert known.get("aw_b", 11.9) is None
    assert known.get("aw_a", 12.0) is None


def test_a_forgotten_token_is_unknown() -> None:
    known = KnownTokens(trusted_for=2.0)
    known.put("aw_a", ANN, 10.0)
    known.forget()
    assert known.get("aw_a", 10.0) is None


def test_by_default_no_token_is_trusted() -> None:
    known = KnownTokens()
    known.put("aw_a", ANN, 10.0)
    assert known.get("aw_a", 10.0) is None


def test_a_limited_number_of_digests_and_no_token_is_kept() -> None:
    known = KnownTokens(trusted_for=2.0)
    for number in range(recent_tokens._MOST_TOKENS + 1):
        known.put(f"aw_{number}", ANN, 10.0)
    assert len(known._known) == recent_tokens._MOST_TOKENS
    assert known.get("aw_0", 10.0) is None
    assert known.get(f"aw_{recent_tokens._MOST_TOKENS}", 10.0) is not None
    assert not any("aw_" in key for key in known._known)


def test_failures_are_limited_in_each_minute() -> None:
    failures = Failures()
    for number in range(MOST_FAILURES):
        assert failures.add("192.0.2.1", float(number)) is None
    assert failures.add("192.0.2.1", 30.0) == pytest.approx(MINUTE - 30)
    assert failures.add("192.0.2.2", 30.0) is None
    assert failures.add("192.0.2.1", MINUTE) is None
    assert failures.add("192.0.2.1", MINUTE) == pytest.approx(1)
    assert failures.add("192.0.2.1", 3 * MINUTE) is None


def test_the_addresses_of_one_network_are_counted_together() -> None:
    failures = Failures()
    answers = [failures.add(f"2001:db8::{number:x}", 0.0) for number in range(MOST_FAILURES + 1)]
    assert answers == [None] * MOST_FAILURES + [MINUTE]
    assert failures.add("not an address", 0.0) is None


def test_the_client_that_failed_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watcher.serving.api.sign_in.recent_tokens._MOST_CLIENTS", 2)
    failures = Failures()
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
        failures.add(address, 0.0)
    assert list(failures._of) == ["192.0.2.1", "192.0.2.3"]
