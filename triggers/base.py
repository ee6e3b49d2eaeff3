"""The trigger contract: everything the author of a trigger needs, on one page.

A trigger watches one source and yields `TriggerBatch`es: events *and* the position that makes them true. It never writes
anything by itself. The host commits both in one transaction and only then asks for the next batch, so a trigger can
never get ahead of what is durable. After a crash the host starts the trigger again from the last committed position.

Triggers never import the store, the configuration or the daemon. A class may have
abilities beyond this page: `triggers.hosting` lists those that hosts ask for.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from triggers.errors import ConfigurationError
from triggers.errors import Finding as Finding  # noqa: PLC0414  it belongs to this page
from triggers.errors import refuse_errors as refuse_errors  # noqa: PLC0414  it belongs to this page
from triggers.hosting import RestingTrigger, next_in_time, revealed
from triggers.options import BaseOptions as BaseOptions  # noqa: PLC0414  it belongs to this page
from triggers.options import Facts as Facts  # noqa: PLC0414  it belongs to this page

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = "Mapping[str, JsonValue]"


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """The difference between a large working set and the one committed before; applied in the order of these fields.

    It is part of the events' transaction. Members are signed 64-bit integers with a signed 64-bit value each, unique per
    watcher. `clear` empties the set, `delete_below` drops every member whose *value* is lower, and `insert` replaces
    members that are there already. Beside it stand numbered `chunks`: `clear` drops all, `delete_chunks_below` the lower.
    """

    clear: bool = False
    delete_below: int | None = None
    delete: Collection[int] = ()
    insert: Mapping[int, int] = field(default_factory=dict)
    delete_chunks_below: int | None = None
    chunks: Mapping[int, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(value or type(value) is int for value in vars(self).values())  # a bound of 0 is one


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
    """Only the working state moved, lest it grow too old: no watermark, history or log line is written, and a rewind can
    still be undone. Not for a first position, and not beside events."""
    is_final: bool = False
    """The rewind to here, from `rewound`, cannot be undone: the source forgets what lies before."""


@dataclass(frozen=True, kw_only=True)
class RejectedItem:
    """A row or a file that no event can carry. It is stored apart, so that the other items can be emitted.

    `key` is what the event's `rejected` names it by. `version` tells contents of one key apart, '' where there is only one.
    `column` is the column that fails, where it is a single one; `code` is PostgreSQL's SQLSTATE; `reason` is for people.
    """

    key: JsonValue
    version: str = ""
    column: str | None = None
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class StoredPosition:
    """The last committed position, as the host hands it to `events`: state, large set, chunks and rejected items.

    `retried` are those of the `rejected` that a person wants to be retried. The first batches emit each of them that can be
    emitted by now and name it in `settled`, as those that are gone; they name the rest in `rejected` again.
    """

    state: JsonObject
    rows: Mapping[int, int] = field(default_factory=dict)
    rejected: Sequence[RejectedItem] = ()
    retried: Sequence[RejectedItem] = ()
    chunks: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TriggerEvent:
    """One asset event to be. `payload` is merged into the event's `extra` after `watcher`, `event_id`, `count` and `watermark`.

    `count` is the number of items (files, rows) the payload stands for. `watermark` is `{"from": …, "to": …}`.
    `partition_key` is what all items share: 1 to 250 characters, not blank. `asset` is one of `further_assets` of the options.
    """

    count: int
    watermark: JsonObject
    payload: JsonObject
    partition_key: str | None = None
    asset: str | None = None


@dataclass(frozen=True, kw_only=True)
class TriggerBatch:
    """Events and the position that makes them true, committed together."""

    events: Sequence[TriggerEvent] = ()
    position: Position | None = None
    """None: the poll found nothing that is worth a write. Then nothing is emitted, rejected or settled."""
    caught_up: bool = True
    """False: more is waiting right now, and the host does not pause before the next batch."""
    whole_since: float | None = None
    """In the last batch of a poll that reached the source's end: when it began, by `time.monotonic`. It shows people the lag."""
    up_to: JsonValue = None
    """Beside `whole_since`: what the watermark's `up_to` would be now, where the clock moves it. Shown, and not written."""
    findings: Sequence[Finding] | None = None
    """All that people should know now, warnings of `check` among it; None: the findings of before stand."""
    rejected: Sequence[RejectedItem] = ()
    """Rejected from here on. People may retry them. One of the events names each in `rejected`, unless it was rejected before."""
    settled: Sequence[RejectedItem] = ()
    """These items were rejected before, and are no more: they are emitted here, or gone."""

    def __post_init__(self) -> None:
        if not (self.events or self.rejected or self.settled):
            return
        if self.position is None:
            raise ValueError("a batch with events must carry the position that makes them true")
        if self.position.silent:
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
        """Open the client that all triggers of this connection share: on first use, until the daemon ends.

        Entering may not block the event loop; it need not reach the source.
        """

    def reveal_to_jobs(self) -> JsonObject:
        """Return what jobs that list this connection get in their private context, as JSON; `type` is added where it is missing.

        Here: every field that is set, secrets in clear. Override it to withhold what jobs have no use for.
        """
        fields: JsonObject = revealed(self.model_dump(exclude_none=True))
        return fields


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerContext:
    """What the host tells a trigger about its surroundings.

    `poll_timeout` bounds one batch of a poll, `max_batch_bytes` its events as JSON. `random` draws jitter from [0, 1). `dry_run`:
    nothing that is yielded will be committed, so nothing may be taken from the source. `is_alone`: no other trigger has the client.
    `has_position`: it goes on from one, perhaps of an earlier release. `installation`: the metadata database. `manifests`: what to read.
    """

    watcher: str
    dry_run: bool = False
    has_position: bool = False
    is_alone: bool = False
    max_batch_bytes: int = 16_000_000
    poll_timeout: timedelta = timedelta(minutes=5)
    random: Callable[[], float] = random.random
    installation: str = ""
    manifests: Sequence[str] = ()


OptionsT = TypeVar("OptionsT", bound=BaseModel)
ClientT = TypeVar("ClientT")


class BaseEventTrigger(ABC, Generic[OptionsT, ClientT]):
    """Watches one source. One instance per watcher and start; never shared, never restarted: after an error a new one is made."""

    Options: ClassVar[type[BaseModel]]
    connection_type: ClassVar[str | None] = None
    """The `type` of connection this trigger needs, a registered name or a dotted path; None when it needs none."""
    format: ClassVar[int] = 1
    """The format of the states this class yields; it reads all up to it. Count it up when an older program could not read them."""

    def __init__(self, options: OptionsT, client: ClientT, context: TriggerContext) -> None:
        """`client` is what the connection's `open` gave, and without a connection what `open_shared` did. No I/O here."""
        self.options = options
        self.client = client
        self.context = context

    @classmethod
    def open_shared(cls) -> AbstractAsyncContextManager[Any]:
        """Open what the triggers of this class in a process share without a connection; isolated triggers get None."""
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
        """The source that a position belongs to; called after `check`, and may hold what `check` read.

        If it differs from the stored position's identity, the watcher is `blocked`. People see each member's name and value.
        """

    def recognizes(self, stored: Any) -> bool:  # noqa: ARG002  for those who override it
        """Whether `stored`, the identity of a position, means this source although `source_identity` differs from it.

        Then the position keeps it. Called after `check`.
        """
        return False

    @abstractmethod
    def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Yield the batches that follow `position` (None: the very first start), without end.

        The host commits a batch before it asks for the next. Raising ends this instance. Not promised: that a batch
        yielded is ever committed, or that `events` is closed before the process dies.
        """

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002  for those who override it
        """The position from which the watcher goes on after `watcher rewind NAME --to …`; called after `check`.

        `position` is the stored one, None if there is none from this source. `to` is as the person wrote it: a time, an id,
        `start` or `now`. Raises `ConfigurationError` for a place the source does not have.
        """
        raise ConfigurationError(f"this trigger cannot be rewound to {to!r}; write `rewound` for it")


class IncrementalTrigger(RestingTrigger, BaseEventTrigger[OptionsT, ClientT]):
    """A trigger that polls: authors write `poll`; this class owns the loop, its pauses (`wake` ends one) and the deadline."""

    @property
    @abstractmethod
    def interval(self) -> timedelta:
        """Time between the end of a poll and the start of the next; up to a tenth is added as jitter."""

    @abstractmethod
    def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Check the source once and yield what is new, oldest first; the last batch says whether that is all (`caught_up`).

        `position` is given to the first poll of this instance only; later polls go on from what the instance yielded,
        all of which is committed by then. A poll that found nothing yields nothing or one batch without position.
        """

    @property
    def findings(self) -> Sequence[Finding] | None:
        """All that people should know now, warnings of `check` among it; None: what `check` found."""
        return None

    @property
    def up_to(self) -> JsonValue:
        """What the watermark's `up_to` would be now, where the clock moves it; None: what the watermark says."""
        return None

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        while True:
            caught_up, began = True, monotonic()
            async with aclosing(self.poll(position)) as batches:
                while (batch := await next_in_time(batches, self.context.poll_timeout)) is not None:
                    caught_up = batch.caught_up
                    if batch.position is not None:
                        yield batch
            position = None  # it may be large, and many rest
            del batches
            whole_since = began if caught_up else None
            yield TriggerBatch(caught_up=caught_up, whole_since=whole_since, up_to=self.up_to, findings=self.findings)
            if caught_up:
                await self.pause()

    def seconds_between_polls(self) -> float:
        """The interval with its jitter."""
        return self.interval.total_seconds() * (1 + self.context.random() / 10)
