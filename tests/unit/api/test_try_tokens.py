"""The tokens of tries."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest

from store.keys import TryRef
from store.processes.tokens import digest
from watcher.serving import try_tokens
from watcher.serving.try_tokens import InvalidTryToken, TryIdentity

HOUR = timedelta(hours=1)
TASK = "6f3a0c5e-7c0a-4f0e-9a51-6d8a1f7c2b10"


def claims(token: str) -> dict[str, Any]:
    decoded: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return decoded


def signed(**changes: Any) -> str:
    """Return a signed token with other claims. None omits a claim."""
    wanted_claims = {
        **claims(try_tokens.issue(b"key", TryRef(task_instance_id=TASK, try_number=3), lifetime=HOUR)),
        **changes,
    }
    kept = {name: value for name, value in wanted_claims.items() if value is not None}
    return jwt.encode(kept, try_tokens._key(b"key"), algorithm="HS512")


def test_a_token_identifies_a_try() -> None:
    token = try_tokens.issue(b"key", TryRef(task_instance_id=TASK, try_number=3), lifetime=HOUR)

    identity = try_tokens.verify([b"key"], token)

    assert (identity.task_instance_id, identity.try_number, identity.lifetime) == (TASK, 3, HOUR)
    assert abs(identity.issued_at - datetime.now(UTC)) < timedelta(seconds=5)


def test_the_claims_are_those_of_airflow_and_the_try() -> None:
    token = try_tokens.issue(b"key", TryRef(task_instance_id=TASK, try_number=3), lifetime=HOUR)

    decoded = claims(token)
    assert {name: decoded[name] for name in ("sub", "aud", "scope", "try")} == {
        "sub": TASK,
        "aud": "urn:airflow.apache.org:task",
        "scope": "execution",
        "try": 3,
    }
    assert {"exp", "iat", "nbf", "jti"} < set(decoded)
    assert jwt.get_unverified_header(token)["alg"] == "HS512"
    assert try_tokens.issue(b"key", TryRef(task_instance_id=TASK, try_number=3), lifetime=HOUR) != token


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "ü",
        try_tokens.issue(b"other", TryRef(task_instance_id=TASK, try_number=3), lifetime=HOUR),
        try_tokens.issue(b"key", TryRef(task_instance_id=TASK, try_number=3), lifetime=-HOUR),
        signed(aud="other"),
        signed(scope="other"),
        signed(sub=None),
        signed(jti=None),
        signed(exp=None),
        signed(**{"try": None}),
        signed(**{"try": "3"}),
        signed(**{"try": True}),
        *(signed(**{"try": number}) for number in (-1, 0, 2**31, 2**63, 2**64, 10**300, 1.0, [1], {})),
        *(signed(sub=subject) for subject in ("", "x", "\0", "\ud800", "a" * 10_000)),
        *(signed(trace=trace) for trace in (1, "", "\0", "a" * 33)),
        *(signed(first=first) for first in (1, "", "a" * 63, "\0" * 64)),
        *(signed(assets=assets) for assets in ([1], 1, "1", [[1]], ["1"])),  # those of a try have none
        *(signed(assets=assets, **{"try": 0}) for assets in (1, ["1"], [2**63], [0], [True])),
        *(signed(exp=moment) for moment in (10**12, 10**300, 10**400, True, "never")),
        signed(iat=-(10**300)),
        signed(nbf=datetime.now(UTC) + HOUR),
        jwt.encode(claims(signed()), None, algorithm="none"),
        jwt.encode(claims(signed()), try_tokens._key(b"key"), algorithm="HS256"),
    ],
)
def test_invalid_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidTryToken) as raised:
        try_tokens.verify([b"key"], token)
    assert not token or token not in str(raised.value)


def test_a_renewed_token_carries_the_digest_of_the_first() -> None:
    ref = TryRef(task_instance_id=TASK, try_number=3)
    first = try_tokens.issue(b"key", ref, lifetime=HOUR)
    identity = try_tokens.verify([b"key"], first)
    assert identity.first == digest(first)
    renewed = try_tokens.issue(b"key", ref, lifetime=HOUR, first=identity.first)
    assert try_tokens.verify([b"key"], renewed).first == digest(first)


def test_a_header_nested_very_deeply_is_refused() -> None:
    header = base64.urlsafe_b64encode(b"[" * 30_000).decode()
    with pytest.raises(InvalidTryToken):
        try_tokens.verify([b"key"], f"{header}.e30.e30")


def test_the_largest_number_of_the_column_is_a_try() -> None:
    assert try_tokens.verify([b"key"], signed(**{"try": 2**31 - 1})).try_number == 2**31 - 1


def test_clocks_may_differ_a_little() -> None:
    assert try_tokens.verify([b"key"], signed(nbf=datetime.now(UTC) + timedelta(seconds=5)))


@pytest.mark.parametrize(("minutes", "due"), [(0, False), (47, False), (49, True), (61, True)])
def test_a_token_is_due_for_renewal_in_its_last_fifth(minutes: int, due: bool) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    identity = TryIdentity(task_instance_id=TASK, try_number=1, issued_at=start, expires_at=start + HOUR, first="")

    assert identity.is_due_for_renewal(start + timedelta(minutes=minutes)) is due
