"""The trigger contract: everything a watcher's author needs, on one page.

A trigger watches one source and yields `TriggerBatch`es: events *and* the position that makes them true. It never writes
anything by itself. The host commits both in one transaction and only then asks for the next batch, so a trigger can
never get ahead of what is durable. After a crash the host starts the trigger again from the last committed position.

Triggers never import the store, the configuration or the daemon.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from triggers.errors import ConfigurationError, SourceUnavailable

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = "Mapping[str, JsonValue]"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of a start-up check. `message` says what was found, `remedy` what to do about it ('' when ok)."""

    check: str
    level: Literal["ok", "warning", "error"]
    message: str
    remedy: str = ""

    @classmethod
    def ok(cls, check: str, message: str) -> Self:
        return cls(check=check, level="ok", message=message)

    @classmethod
    def warning(cls, check: str, message: str, remedy: str) -> Self:
        return cls(check=check, level="warning", message=message, remedy=remedy)

    @classmethod
    def error(cls, check: str, message: str, remedy: str) -> Self:
        return cls(check=check, level="error", message=message, remedy=remedy)


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raise `ConfigurationError` with a sentence for each error among `findings`, if there is one."""
    errors = [f"{each.message}; {each.remedy}".removesuffix("; ") for each in findings if each.level == "error"]
    if errors:
        raise ConfigurationError(" · ".join(errors))


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """How a large working set differs from the one committed before: applied in this order, in the events' transaction.

    Members are signed 64-bit integers with a signed 64-bit value each, unique per watcher. `delete_below` drops every
    member whose *value* is lower; `insert` replaces members that are there already. `clear` empties the set before all.
    """

    clear: bool = False
    delete_below: int | None = None
    delete: Collection[int] = ()
    insert: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.clear or self.delete_below is not None or bool(self.delete) or bool(self.insert)


@dataclass(frozen=True, kw_only=True)
class Position:
    """A watcher's place in its source, as a trigger yields it.

    `watermark` is what a person judges by ("up to when? what is still open?"), any JSON but null. `state` is the working
    state, a small JSON object, stored whole; `rows` changes the large set next to it. The state is the truth: the
    watermark is a view of it and is never read back.
    """

    watermark: JsonValue
    state: JsonObject
    rows: RowChanges = RowChanges()
    silent: bool = False
    """Only the working state moved, and only because it must not grow too old: no watermark is written, no history and no
    line of the log, and a rewind can be undone as before. Not for a first position, nor beside events."""


@dataclass(frozen=True, kw_only=True)
class RejectedItem:
    """A row or a file that cannot be told, and is kept aside so that the others can be.

    `key` is what the event's `rejected` names it by; `version` tells contents of one key apart, '' where there is only one.
    `column` is the one that fails, where it is one alone; `code` PostgreSQL's SQLSTATE; `reason` is for people.
    """

    key: JsonValue
    version: str = ""
    column: str | None = None
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class StoredPosition:
    """The last committed position, as the host hands it to `events`: the state, the whole large set, and what is kept aside.

    `retried` are those of the `rejected` that a person wants to be told: the first batches tell each of them that can be
    told by now, and have the others `settled` where they are gone, else `rejected` again.
    """

    state: JsonObject
    rows: Mapping[int, int] = field(default_factory=dict)
    rejected: Sequence[RejectedItem] = ()
    retried: Sequence[RejectedItem] = ()


@dataclass(frozen=True, kw_only=True)
class TriggerEvent:
    """One asset event to be. `payload` is merged into the event's `extra` after `watcher`, `event_id`, `count` and `watermark`.

    `count` is the number of items (files, rows) the payload stands for. `watermark` is `{"from": …, "to": …}`.
    """

    count: int
    watermark: JsonObject
    payload: JsonObject


@dataclass(frozen=True, kw_only=True)
class TriggerBatch:
    """Events and the position that makes them true, committed together.

    `position` None: the poll found nothing and there is nothing worth a write; then `events` is empty. `caught_up` is
    False when more is waiting right now: the host does not pause the loop before the next batch. `whole_since` stands in
    the last batch of a look that reached the end of the source: when that look began, by `time.monotonic`. From it people
    learn how far the watcher lags behind. `up_to` beside it: what the watermark's `up_to` would be now, where the clock moves
    it; it is shown, and not written. `findings`: what a person should look at now, warnings of `check` among it; None: what was
    found before stands. `rejected` are kept aside from here on: people see them, and may have them tried again; each is named
    in the `rejected` of one of the events, unless it was kept aside before. `settled` were kept aside, and are no more: they
    are told here, or gone.
    """

    events: Sequence[TriggerEvent] = ()
    position: Position | None = None
    caught_up: bool = True
    whole_since: float | None = None
    up_to: JsonValue = None
    findings: Sequence[Finding] | None = None
    rejected: Sequence[RejectedItem] = ()
    settled: Sequence[RejectedItem] = ()

    def __post_init__(self) -> None:
        moves = bool(self.events or self.rejected or self.settled)
        if moves and self.position is None:
            raise ValueError("a batch with events must carry the position that makes them true")
        if moves and self.position is not None and self.position.silent:
            raise ValueError("the position of a batch with events is not silent")


class BaseConnection(BaseModel, ABC):
    """Where a source lives and how to sign in, from the YAML's `connections`; secrets are `SecretStr`.

    `type` is as the YAML has it: a registered name, or the dotted path of the class. pydantic's validation context has
    `folder`, the folder of the configuration file: relative paths start there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    type: str

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[Any]:
        """The client that all triggers of this connection share; opened on first use, closed with the daemon.

        Entering may not block the event loop; it need not reach the source.
        """

    def reveal_to_jobs(self) -> JsonObject:
        """What jobs that list this connection get in their private context, as JSON; `type` is added where it is missing.

        Here: every field that is set, secrets in clear. Override it to keep what jobs have no use for.
        """
        revealed: JsonObject = _revealed(self.model_dump(exclude_none=True))
        return revealed


class BaseOptions(BaseModel):
    """Options of one watcher, from the YAML. Keys that the contract itself uses are taken: trigger, connection.

    pydantic's validation context has `folder`, the folder of the configuration file: relative paths start there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerContext:
    """What the host tells a trigger about its surroundings.

    `poll_timeout` bounds one batch of one poll. `random` draws jitter from [0, 1). `dry_run`: nothing that is yielded will
    be committed, so the source must not be told that anything was taken. `is_alone`: no other trigger has the same client.
    `max_batch_bytes` bounds the events of one batch, as JSON: what is larger is to be divided.
    """

    watcher: str
    dry_run: bool = False
    is_alone: bool = False
    max_batch_bytes: int = 16_000_000
    poll_timeout: timedelta = timedelta(minutes=5)
    random: Callable[[], float] = random.random


def _revealed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _revealed(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_revealed(member) for member in value]
    return to_jsonable_python(value.get_secret_value() if isinstance(value, SecretStr | SecretBytes) else value)


OptionsT = TypeVar("OptionsT", bound=BaseModel)
ClientT = TypeVar("ClientT")


class BaseEventTrigger(ABC, Generic[OptionsT, ClientT]):
    """Watches one source. One instance per watcher and start; never shared, never restarted: after an error a new one is made."""

    Options: ClassVar[type[BaseModel]]
    connection_type: ClassVar[str | None] = None
    """The `type` of connection this trigger needs, a registered name or a dotted path; None when it needs none."""
    format: ClassVar[int] = 1
    """Of the states this class yields: count it up when a program before it could not read them. It reads all up to it."""

    def __init__(self, options: OptionsT, client: ClientT, context: TriggerContext) -> None:
        """`client` is what the connection's `open` gave, and without a connection what `open_shared` did. No I/O here."""
        self.options = options
        self.client = client
        self.context = context

    @classmethod
    def open_shared(cls) -> AbstractAsyncContextManager[Any]:
        """What triggers of this class share in a process where they have no connection, as `BaseConnection.open`; isolated ones None."""
        return nullcontext()

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:  # noqa: ARG003  there for those who override it
        """Options that an asset's URI implies (bucket and prefix, table, path); keys given in the YAML win."""
        return {}

    @classmethod
    def describe(cls, watermark: JsonValue) -> tuple[str, Mapping[str, float]]:  # noqa: ARG003  for those who override it
        """What a person should know of a committed watermark, in a sentence ('' when nothing), and numbers by gauge.

        A gauge `gaps` is `watcher_gaps` for Prometheus. Pure and quick: called for every scrape, in processes that have
        nothing but this class, also with a watermark of an older release. Raising breaks nothing: the class is named.
        """
        return "", {}

    @abstractmethod
    async def check(self) -> list[Finding]:
        """Reach the source and judge whether detection will be exact; called at every start, before all else.

        An `error` keeps the watcher from running. Raises `SourceUnavailable` when the source cannot be reached now.
        """

    @abstractmethod
    def source_identity(self) -> JsonValue:
        """What a position belongs to; called after `check`, and may hold what `check` read.

        When it differs from the stored position's identity the host does not guess: the watcher is `blocked`. Name and
        value of each member are shown to people.
        """

    @abstractmethod
    def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Batches from `position` on (None: the very first start), without end.

        The host commits a batch before it asks for the next. Raising ends this instance. Not promised: that a batch
        yielded is ever committed, or that `events` is closed before the process dies.
        """

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002  for those who override it
        """The position from which the watcher goes on after `watcher rewind NAME --to …`; called after `check`.

        `position` is the stored one, None when there is none or when it was made from another source. `to` is as the person
        wrote it: a time, an id, `start` or `now`. Raises `ConfigurationError` for a place the source does not have.
        """
        raise ConfigurationError(f"this trigger cannot be rewound to {to!r}; write `rewound` for it")

    @property
    def looked_at(self) -> float | None:
        """When, by `time.monotonic`, the last look began that was made for many and had nothing for this one; None: there is none."""
        return None

    @property
    def up_to(self) -> JsonValue:
        """What the watermark's `up_to` would be now, by that look too; None: what it was when it was written."""
        return None

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:  # noqa: ARG002  for those who override it
        """Whether nothing that `batch` tells or keeps aside would come again from `kept`, the position before a rewind; pure.

        As long as it is so, the rewind can be undone. Asked of batches with events or rejected items, as `events` yielded them.
        """
        return False

    @property
    def knows_what_is_retold(self) -> bool:
        """Whether the answer of `retold` says anything about a batch."""
        return type(self).retold is not BaseEventTrigger.retold

    def shared_stream_key(self) -> Hashable | None:
        """Triggers with equal keys may share one poll of their source. None: never."""
        return None


class IncrementalTrigger(BaseEventTrigger[OptionsT, ClientT]):
    """A trigger that polls: authors write `poll`, this class owns the loop, its interval with jitter, hints and deadline."""

    def __init__(self, options: OptionsT, client: ClientT, context: TriggerContext) -> None:
        super().__init__(options, client, context)
        self._is_woken = False
        self._on_wake: Callable[[], None] | None = None

    @property
    @abstractmethod
    def interval(self) -> timedelta:
        """Time between the end of a poll and the start of the next; up to a tenth is added as jitter."""

    @abstractmethod
    def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """One look at the source: yields the batches it found, oldest first, the last one with `caught_up` as it is.

        `position` is given to the first poll of this instance only; later polls go on from what the instance yielded,
        all of which is committed by then. A poll that found nothing yields nothing or one batch without position.
        """

    @property
    def findings(self) -> Sequence[Finding] | None:
        """What a person should look at now, warnings of `check` among it; None: what `check` found."""
        return None

    def wake(self) -> None:
        """A hint that something may be new: the pause between two polls ends now. Loses nothing when it never comes."""
        self._is_woken = True
        if self._on_wake is not None:
            self._on_wake()

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        while True:
            caught_up, began = True, monotonic()
            async with aclosing(self.poll(position)) as batches:
                while (batch := await self._next(batches)) is not None:
                    caught_up = batch.caught_up
                    if batch.position is not None:
                        yield batch
            position = None  # it may be large, and many rest
            del batches
            whole_since = began if caught_up else None
            yield TriggerBatch(caught_up=caught_up, whole_since=whole_since, up_to=self.up_to, findings=self.findings)
            if caught_up:
                await self.pause()

    async def _next(self, batches: AsyncGenerator[TriggerBatch, None]) -> TriggerBatch | None:
        seconds = self.context.poll_timeout.total_seconds()
        late = f"the source did not answer within {seconds:g} s; look why it is slow, or raise settings.triggerer.poll_timeout"
        try:
            with anyio.fail_after(seconds):
                return await anext(batches, None)
        except TimeoutError as error:
            raise SourceUnavailable(late) from error

    def seconds_between_polls(self) -> float:
        """The interval with its jitter."""
        return self.interval.total_seconds() * (1 + self.context.random() / 10)

    async def pause(self) -> None:
        """What comes between two polls; for triggers that know better when the next one is due."""
        await self.rest(self.seconds_between_polls())

    async def rest(self, seconds: float) -> bool:
        """Until the time is over or `wake` was called; whether it was."""
        with anyio.CancelScope() as scope:
            self._on_wake = scope.cancel
            await anyio.sleep(0 if self._is_woken else seconds)
        woken, self._is_woken, self._on_wake = self._is_woken, False, None
        return woken

    def park(self, on_wake: Callable[[], None]) -> float | None:
        """Rest without `events`, which is closed next, for these seconds or until `on_wake` is called; None: not now."""

    def unpark(self, *, for_good: bool) -> None:  # noqa: ARG002  for those who override it
        """`events(None)` is called next, or with `for_good` nothing any more."""
        self._is_woken, self._on_wake = False, None
