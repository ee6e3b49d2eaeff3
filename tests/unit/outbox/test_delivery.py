"""The state of a message between one attempt and the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.features.outbox.outbox import OutboxMessage
from watcher.features.outbox.delivery import (
    LONGEST_PAUSE,
    Delivered,
    DeliveryRefused,
    Failed,
    LookUp,
    Outcome,
    Postponed,
    Send,
    Unclear,
    Wait,
    after_attempt,
    after_look_up,
    backoff,
    next_step,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIMEOUT = timedelta(seconds=10)


def message(*, attempted: float | None = None, not_before: float | None = None, attempts: int = 0) -> OutboxMessage:
    """Return a message. Its times are in seconds from now."""

    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else NOW + timedelta(seconds=seconds)

    return OutboxMessage(
        id=1,
        destination="there",
        lane="1",
        message_id="m",
        body="{}",
        asset_event_id=None,
        target=None,
        partition_key=None,
        attempts=attempts,
        first_attempt_at=at(attempted),
        attempt_at=at(attempted),
        not_before=at(not_before),
        now=NOW,
    )


@pytest.mark.parametrize(
    ("first", "step"),
    [
        (message(), Send()),
        (message(not_before=-1), Send()),
        (message(not_before=3), Wait(pause=timedelta(seconds=3))),
        (message(attempted=-4), Wait(pause=timedelta(seconds=6))),
        (message(attempted=-4, not_before=-1), Wait(pause=timedelta(seconds=6))),
        (message(attempted=-4, not_before=8), Wait(pause=timedelta(seconds=8))),
        (message(attempted=-10), LookUp()),
        (message(attempted=-60, not_before=1), Wait(pause=timedelta(seconds=1))),
    ],
)
def test_an_attempt_without_an_answer_is_looked_up_once_its_request_has_ended(
    first: OutboxMessage, step: Send | LookUp | Wait
) -> None:
    assert next_step(first, TIMEOUT) == step


@pytest.mark.parametrize("attempts", [1, 5, 10_000])
def test_a_message_stays_until_its_arrival_is_known(attempts: int) -> None:
    pause = backoff(attempts)
    assert after_attempt(Delivered(), attempts) is None
    assert after_attempt(Failed(reason="no"), attempts) == Postponed(pause=pause, error="no")
    assert after_attempt(DeliveryRefused(reason="no"), attempts) == Postponed(pause=pause, error="no", refused=True)
    assert after_attempt(Unclear(reason="no"), attempts) == Postponed(pause=pause, error="no", is_unclear=True)
    assert after_look_up(Delivered(), attempts) is None
    not_there = after_look_up(None, attempts)
    assert not_there is not None
    assert not not_there.is_unclear
    for failed in (Failed(reason="no"), DeliveryRefused(reason="no"), Unclear(reason="no")):
        later = after_look_up(failed, attempts)
        assert later is not None
        assert later.is_unclear, "a look that failed says nothing of the attempt"


@given(st.integers(1, 100_000))
def test_pauses_grow_to_a_minute(attempts: int) -> None:
    assert timedelta(0) < backoff(attempts) <= backoff(attempts + 1) <= LONGEST_PAUSE


@given(st.lists(st.sampled_from(["lost before", "lost after", "arrived", "look failed", "seen"]), max_size=30))
def test_a_message_arrives_at_least_once_and_repeats_only_after_a_lost_answer(fates: list[str]) -> None:
    """A destination that shows arrivals before the request has ended never gets a repeat."""
    arrived, unclear = 0, False
    for fate in [*fates, "arrived", "seen", "arrived", "seen"]:
        outcome: Outcome | None
        if unclear:
            outcome = Failed(reason="") if fate == "look failed" else Delivered() if arrived else None
            postponed = after_look_up(outcome, 1)
        else:
            arrived += fate in {"lost after", "arrived", "seen"}
            outcome = Unclear(reason="") if fate.startswith("lost") else Failed(reason="")
            postponed = after_attempt(Delivered() if fate in {"arrived", "seen"} else outcome, 1)
        if postponed is None:
            break
        unclear = postponed.is_unclear
    assert arrived == 1
