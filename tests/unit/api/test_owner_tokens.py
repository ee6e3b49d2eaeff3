"""Tokens of the account that owns a home: signed by the home's secret, and valid for a minute."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import jwt
import pytest

from watcher.serving import owner_tokens, try_tokens

SECRET = b"s" * 64


def test_a_token_names_its_account() -> None:
    token = owner_tokens.issue(SECRET, "cli:ann")
    assert owner_tokens.account_of([b"n" * 64, SECRET], token) == "cli:ann"
    assert owner_tokens.account_of([b"n" * 64], token) is None


def test_a_token_is_none_of_a_try() -> None:
    with pytest.raises(try_tokens.InvalidTryToken):
        try_tokens.verify([SECRET], owner_tokens.issue(SECRET, "cli:ann"))


def test_a_token_ends_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_tokens, "LIFETIME", timedelta(minutes=-2))
    token = owner_tokens.issue(SECRET, "cli:ann")
    assert owner_tokens.account_of([SECRET], token) is None
    assert owner_tokens.account_of([SECRET], token, may_be_over=True) == "cli:ann"


@pytest.mark.parametrize("token", ["", "..", "a.b.c", "aw_x", "é.é.é"])
def test_what_is_no_token_names_nobody(token: str) -> None:
    assert owner_tokens.account_of([SECRET], token) is None


def test_a_token_without_an_end_names_nobody() -> None:
    claims = {"sub": "cli:ann", "aud": "asset-watcher:command-line", "iat": datetime.now(UTC)}
    token = jwt.encode(claims, hashlib.sha512(SECRET).digest(), algorithm="HS512")
    assert owner_tokens.account_of([SECRET], token) is None
