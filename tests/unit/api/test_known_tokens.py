"""Tokens that were right a moment ago, on a clock of the tests."""

from __future__ import annotations

from store.processes.tokens import Identity
from watcher.serving.api.sign_in import known_tokens
from watcher.serving.api.sign_in.known_tokens import KnownTokens

ANN = Identity(token_id="1", subject="ann", role="viewer", use_is_news=True)


def test_a_token_is_known_for_as_long_as_it_is_trusted_and_its_use_is_no_news() -> None:
    known = KnownTokens(trusted_for=2.0)
    assert known.get("aw_a", 10.0) is None
    known.put("aw_a", ANN, 10.0)
    assert known.get("aw_a", 11.9) == Identity(token_id="1", subject="ann", role="viewer")
    assert known.get("aw_b", 11.9) is None
    assert known.get("aw_a", 12.0) is None


def test_what_is_forgotten_is_asked_for_again() -> None:
    known = KnownTokens(trusted_for=2.0)
    known.put("aw_a", ANN, 10.0)
    known.forget()
    assert known.get("aw_a", 10.0) is None


def test_by_default_none_is_known() -> None:
    known = KnownTokens()
    known.put("aw_a", ANN, 10.0)
    assert known.get("aw_a", 10.0) is None


def test_it_keeps_a_bounded_number_and_no_token_itself() -> None:
    known = KnownTokens(trusted_for=2.0)
    for number in range(known_tokens._MOST + 1):
        known.put(f"aw_{number}", ANN, 10.0)
    assert len(known._known) == known_tokens._MOST
    assert known.get("aw_0", 10.0) is None
    assert known.get(f"aw_{known_tokens._MOST}", 10.0) is not None
    assert not any("aw_" in key for key in known._known)
