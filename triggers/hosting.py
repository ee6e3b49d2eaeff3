"""What only hosts and the shipped triggers need beyond `triggers.base`: abilities, parking, shared polls.

A class that has the methods of an ability has the ability; there is nothing to register. The Protocols here are those that
every host asks for. Those that single features ask for stand beside their values, in `triggers.explanations`,
`triggers.inventories` and `triggers.cleaning`. `triggers.base` imports this page, and never the reverse. It defines what a
stored position and a batch are; here they are type variables.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

import anyio
from anyio.abc import TaskGroup
from pydantic import SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from triggers.errors import Finding, SourceUnavailable
from triggers.shared.delays import sleep_for

UNRESOLVED: Final = "unresolved"
"""The member of a stored state that lists what stands until a person has read it: `watcher watchers resolve` drops it."""

PositionT_contra = TypeVar("PositionT_contra", contravariant=True)
BatchT_contra = TypeVar("BatchT_contra", contravariant=True)
BatchT_co = TypeVar("BatchT_co", covariant=True)
BatchT = TypeVar("BatchT")
KeyT = TypeVar("KeyT", bound=Hashable)
MemberT = TypeVar("MemberT")


@runtime_checkable
class Polls(Protocol[PositionT_contra, BatchT_co]):
    """The ability to check the source once, so that a person can see what the next poll would find."""

    def poll(self, position: PositionT_contra | None) -> AsyncGenerator[BatchT_co, None]:
        """Check the source once and yield what is new, see `IncrementalTrigger.poll`."""


@runtime_checkable
class Wakes(Protocol):
    """The ability to poll early."""

    def wake(self) -> None:
        """Take the hint that something may be new. A lost hint costs latency only."""


@runtime_checkable
class Reselects(Protocol[PositionT_contra]):
    """The ability to go on where the watcher stood, with another selection of the same source's items."""

    def reselects(self, stored: Any) -> bool:
        """Whether `stored`, the identity of a position, means this source with another selection of its items.

        Then `rewound` may be asked for `here`, with that position, by the same instance. Needs no `check`.
        """

    async def decisions(self, position: PositionT_contra) -> str:
        """Say what people may decide about the position of another selection, after `check` and `reselects`; '' if it cannot.

        Takes at most some seconds.
        """


@dataclass(frozen=True, kw_only=True)
class RewindPlace:
    """A place that `rewound` knows: `start`, `now` and `here` as they are, `time` for any ISO time, `item` for an id or the like.

    `about` says in a sentence for people what follows a rewind to there; `example` is an item.
    """

    kind: Literal["start", "now", "here", "time", "item"]
    about: str
    example: str = ""


@runtime_checkable
class KnowsPlaces(Protocol):
    """The ability of a watcher's options to say which places a rewind knows. Without it people write one."""

    def rewind_places(self) -> Sequence[RewindPlace]:
        """Return the places that `rewound` knows with these options, in the order in which people choose; pure."""


@runtime_checkable
class Retells(Protocol[PositionT_contra, BatchT_contra]):
    """The ability to tell whether an undone rewind would repeat something. Without it, every event ends the undo."""

    def retold(self, kept: PositionT_contra, batch: BatchT_contra) -> bool:
        """Whether nothing that `batch` emits or rejects would come again from `kept`, the position before a rewind; pure.

        The rewind can be undone as long as this is true. A host asks about batches with events or rejected items, as `events`
        yielded them.
        """


@runtime_checkable
class Surveys(Protocol):
    """The ability to say how much there is, and how much of it is selected."""

    async def survey(self) -> Finding | None:
        """Say how much there is to report, and warn if nothing of it is selected. None: this trigger cannot say.

        `watcher check --connect` asks after a `check` without errors.
        """


@runtime_checkable
class SharesPolls(Protocol):
    """The ability to rest while a single poll serves many watchers."""

    @property
    def looked_at(self) -> float | None:
        """When the last shared poll began that had nothing for this watcher, by `time.monotonic`; None: there was none.

        A host asks while the trigger rests. The trigger may forget the moment once it polls by itself.
        """

    @property
    def up_to(self) -> Any:
        """What the watermark's `up_to` would be now, after that shared poll, as JSON; None: what the watermark says."""


@runtime_checkable
class Parks(Protocol):
    """The ability to rest without a task and without `events`, which saves a third of a trigger's memory."""

    def park(self, on_wake: Callable[[], None]) -> float | None:
        """Begin to rest, see `RestingTrigger.park`."""

    def unpark(self, *, for_good: bool) -> None:
        """End the rest that `park` began. The host calls `events(None)` next, or nothing any more if this is `for_good`."""


class RestingTrigger(ABC):
    """A trigger that pauses between two polls. A hint ends the pause early; a host may park the trigger until it ends."""

    _is_woken: bool = False
    """A hint came since the last pause: the next one ends at once."""
    _on_wake: Callable[[], None] | None = None
    """Ends the pause that is under way; None: there is none."""

    @abstractmethod
    def seconds_between_polls(self) -> float:
        """The length of a pause that nothing ends early."""

    def wake(self) -> None:
        """Hint that something may be new: the pause between two polls ends now. A lost hint costs latency only."""
        self._is_woken = True
        if self._on_wake is not None:
            self._on_wake()

    async def pause(self) -> None:
        """Return when the next poll is due. Override it where the trigger knows better when that is."""
        await self.rest(self.seconds_between_polls())

    async def rest(self, seconds: float) -> bool:
        """Return after `seconds`, or earlier if `wake` is called. The result says whether it was called."""
        with anyio.CancelScope() as scope:
            self._on_wake = scope.cancel
            await sleep_for(0 if self._is_woken else seconds)
        woken, self._is_woken, self._on_wake = self._is_woken, False, None
        return woken

    def park(self, on_wake: Callable[[], None]) -> float | None:  # noqa: ARG002  for those who override it
        """Begin to rest without `events`, and return the longest duration of the rest in seconds. None: not now; `pause` follows.

        A host asks after a poll that reached the end of the source. A parked trigger has no task and no generators, which
        saves a third of its memory. The host closes `events` next, before its end, so what must outlast the rest belongs to
        the instance. The trigger calls `on_wake` to poll earlier. The host may call `unpark` at any time, even at once.
        """
        return None

    def unpark(self, *, for_good: bool) -> None:  # noqa: ARG002  for those who override it
        """End the rest that `park` began. The host calls `events(None)` next, or nothing any more if this is `for_good`."""
        self._is_woken, self._on_wake = False, None


class SharedPollTrigger(RestingTrigger):
    """A trigger that rests together with others while nothing but a change of its source can bring events.

    One shared poll then replaces the polls of many watchers. It decides nothing and commits nothing. It wakes the watchers
    for which there may be news, and they poll by themselves.
    """

    @abstractmethod
    def join_shared_poll(self) -> float | None:
        """Begin to rest together with others, and return the longest duration of the rest in seconds. None: poll alone now."""

    @abstractmethod
    def leave_shared_poll(self) -> None:
        """End the rest together with others, if there is one. The watcher polls next, or never again."""

    async def pause(self) -> None:
        seconds = self.join_shared_poll()
        if seconds is None:
            await self.pause_alone()
            return
        try:
            await self.rest(seconds)
        finally:
            self.leave_shared_poll()

    async def pause_alone(self) -> None:
        """Return when the next poll of a watcher that polls by itself is due."""
        await super().pause()

    def park(self, on_wake: Callable[[], None]) -> float | None:
        if self._is_woken or (seconds := self.join_shared_poll()) is None:
            return None
        self._on_wake = on_wake
        return seconds

    def unpark(self, *, for_good: bool) -> None:
        super().unpark(for_good=for_good)
        self.leave_shared_poll()


class SharedPolls(Generic[KeyT, MemberT]):
    """Polls that serve many resting watchers at once: those with equal keys share one poll, and one task.

    Each key has a task of its own, so that a slow source delays no watcher with another key.
    """

    def __init__(
        self,
        poll: Callable[[KeyT, Collection[MemberT]], Awaitable[None]],
        tasks: TaskGroup,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`poll` checks the source for the members of a key, and never raises. `random` draws jitter from [0, 1)."""
        self._poll = poll
        self._tasks = tasks
        self._random = random
        self.members: dict[KeyT, set[MemberT]] = {}
        """The watchers that are polled for now, by key."""

    def join(self, key: KeyT, member: MemberT, *, interval: float) -> None:
        """Poll for `member` every `interval` seconds and up to a tenth more, until it leaves."""
        if key not in self.members:
            self.members[key] = set()
            self._tasks.start_soon(self._run, key, interval, name=f"shared polls of {key}")
        self.members[key].add(member)

    def leave(self, key: KeyT, member: MemberT) -> None:
        """Stop polling for `member`, which may have left already."""
        self.members.get(key, set()).discard(member)

    async def _run(self, key: KeyT, interval: float) -> None:
        members = self.members[key]
        while members:
            await sleep_for(interval * (1 + self._random() / 10))
            if members:
                await self._poll(key, members)
        del self.members[key]


async def next_in_time(batches: AsyncGenerator[BatchT, None], limit: timedelta) -> BatchT | None:
    """Return the next of the `batches`, None at their end. Raises `SourceUnavailable` when it takes longer than `limit`."""
    seconds = limit.total_seconds()
    late = f"the source did not answer within {seconds:g} s; find out why it is slow, or raise settings.triggerer.poll_timeout"
    try:
        with anyio.fail_after(seconds):
            return await anext(batches, None)
    except TimeoutError as error:
        raise SourceUnavailable(late) from error


class ChangingSecrets(ABC):
    """A connection whose secrets may change by themselves, so that each try of a job gets them anew."""

    @property
    @abstractmethod
    def has_changing_secrets(self) -> bool:
        """Whether `reveal_now` has more to say than `reveal_to_jobs`."""

    @abstractmethod
    async def reveal_now(self, *, anew: bool = False) -> Mapping[str, Any]:
        """Return what `reveal_to_jobs` does, with the secrets of now. Raises TriggerError while they cannot be had.

        `anew`: the server refused those that were revealed before, so none that are kept are used.
        """


def revealed(value: Any) -> Any:
    """Return `value` as JSON, with its secrets in clear text."""
    if isinstance(value, Mapping):
        return {name: revealed(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [revealed(member) for member in value]
    return to_jsonable_python(value.get_secret_value() if isinstance(value, SecretStr | SecretBytes) else value)
