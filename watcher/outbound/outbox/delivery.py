"""What becomes of a message: pure decisions between one attempt and the next.

A message that may have arrived is looked up before it is sent again, and not before the request of which no answer came
can have ended. So a repeat needs an answer that was lost and a look that came too early for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol, TypeAlias

from store.detection.outbox import OutboxMessage

SHORTEST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """It has arrived."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """It has not arrived, and may the next time."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """It has not arrived, and will not before a person acts; `reason` names the remedy. It is tried all the same."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Unclear:
    """Nobody knows whether it has arrived."""

    reason: str


Outcome: TypeAlias = Delivered | Failed | Refused | Unclear


class Destination(Protocol):
    """A system that messages are sent to. Several lanes are served at a time."""

    @property
    def name(self) -> str:
        """As in the outbox."""

    @property
    def timeout(self) -> timedelta:
        """After which a request has ended, and an attempt that was not answered can be looked up."""

    async def deliver(self, message: OutboxMessage) -> Outcome:
        """Make one attempt, within `timeout`. Whatever goes wrong is an outcome."""

    async def look_up(self, message: OutboxMessage) -> Outcome | None:
        """What became of the attempts since `first_attempt_at`. None: it did not arrive, or nobody can tell: send it again.

        An outcome other than `Delivered` says that looking failed.
        """


@dataclass(frozen=True, kw_only=True)
class Send:
    """Make an attempt."""


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """Find out what became of the last attempt."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Nothing is to be done before `pause` has passed."""

    pause: timedelta


@dataclass(frozen=True, kw_only=True)
class Postponed:
    """What the outbox notes of a message that has not arrived for certain."""

    pause: timedelta
    error: str
    refused: bool = False
    is_unclear: bool = False


def next_step(message: OutboxMessage, timeout: timedelta) -> Send | LookUp | Wait:
    """What to do about the first message of a lane now."""
    times = [] if message.not_before is None else [message.not_before]
    if message.attempt_at is not None:
        times.append(message.attempt_at + timeout)
    pause = max((time - message.now for time in times), default=timedelta(0))
    if pause > timedelta(0):
        return Wait(pause=pause)
    return Send() if message.attempt_at is None else LookUp()


def after_attempt(outcome: Outcome, attempts: int) -> Postponed | None:
    """What follows an attempt, by how many there were; None: the message has arrived and can go."""
    pause = backoff(attempts)
    match outcome:
        case Delivered():
            return None
        case Refused(reason=reason):
            return Postponed(pause=pause, error=reason, refused=True)
        case Failed(reason=reason):
            return Postponed(pause=pause, error=reason)
        case Unclear(reason=reason):
            return Postponed(pause=pause, error=reason, is_unclear=True)


def after_look(outcome: Outcome | None, attempts: int) -> Postponed | None:
    """What follows a look; it leaves the attempt unclear when it failed. None: the message has arrived and can go."""
    match outcome:
        case None:
            return Postponed(pause=timedelta(0), error="the last attempt did not arrive")
        case Delivered():
            return None
        case _:
            return Postponed(
                pause=backoff(attempts), error=outcome.reason, refused=isinstance(outcome, Refused), is_unclear=True
            )


def backoff(attempts: int) -> timedelta:
    """Twice as long after each attempt, up to a minute."""
    doublings = min(max(attempts - 1, 0), 16)
    return min(SHORTEST_PAUSE * (1 << doublings), LONGEST_PAUSE)
