"""Pure decisions about a message between one attempt and the next.

A message that may have arrived is looked up before it is sent again. The look-up waits until the unanswered request must
have ended. So a message is repeated only if an answer was lost and the look-up still came too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol, TypeAlias

from store.features.outbox.outbox import OutboxMessage

SHORTEST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """The message has arrived."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The message has not arrived. The next attempt may succeed."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class DeliveryRefused:
    """The message has not arrived, and will not until a person acts. `reason` names the remedy. Attempts continue."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Unclear:
    """Nobody knows whether the message has arrived."""

    reason: str


Outcome: TypeAlias = Delivered | Failed | DeliveryRefused | Unclear


class Destination(Protocol):
    """A system that messages are sent to. Several lanes are served at a time."""

    @property
    def name(self) -> str:
        """The name that the outbox stores with each message."""

    @property
    def timeout(self) -> timedelta:
        """The time after which a request has ended, so that an unanswered attempt can be looked up."""

    async def deliver(self, message: OutboxMessage) -> Outcome:
        """Make one attempt, within `timeout`. Whatever goes wrong is an outcome."""

    async def look_up(self, message: OutboxMessage) -> Outcome | None:
        """Find out what became of the attempts since `first_attempt_at`.

        None: the message did not arrive, or nobody can tell; send it again. An outcome other than `Delivered` says that
        the look-up failed.
        """


@dataclass(frozen=True, kw_only=True)
class Send:
    """Make an attempt."""


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """Find out what became of the last attempt."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Do nothing before `pause` has passed."""

    pause: timedelta


@dataclass(frozen=True, kw_only=True)
class Postponed:
    """What the outbox stores about a message that may not have arrived."""

    pause: timedelta
    error: str
    refused: bool = False
    is_unclear: bool = False


def next_step(message: OutboxMessage, timeout: timedelta) -> Send | LookUp | Wait:
    """Decide what to do about the first message of a lane now."""
    times = [] if message.not_before is None else [message.not_before]
    if message.attempt_at is not None:
        times.append(message.attempt_at + timeout)
    pause = max((time - message.now for time in times), default=timedelta(0))
    if pause > timedelta(0):
        return Wait(pause=pause)
    return Send() if message.attempt_at is None else LookUp()


def after_attempt(outcome: Outcome, attempts: int) -> Postponed | None:
    """Decide what follows an attempt; `attempts` counts it. None: the message has arrived and can be removed."""
    pause = backoff(attempts)
    match outcome:
        case Delivered():
            return None
        case DeliveryRefused(reason=reason):
            return Postponed(pause=pause, error=reason, refused=True)
        case Failed(reason=reason):
            return Postponed(pause=pause, error=reason)
        case Unclear(reason=reason):
            return Postponed(pause=pause, error=reason, is_unclear=True)


def after_look_up(outcome: Outcome | None, attempts: int) -> Postponed | None:
    """Decide what follows a look-up. A failed look-up leaves the attempt unclear. None: the message can be removed."""
    match outcome:
        case None:
            return Postponed(pause=timedelta(0), error="the last attempt did not arrive")
        case Delivered():
            return None
        case _:
            return Postponed(
                pause=backoff(attempts),
                error=outcome.reason,
                refused=isinstance(outcome, DeliveryRefused),
                is_unclear=True,
            )


def backoff(attempts: int) -> timedelta:
    """Return a pause that doubles with each attempt, up to a minute."""
    doublings = min(max(attempts - 1, 0), 16)
    return min(SHORTEST_PAUSE * (1 << doublings), LONGEST_PAUSE)
