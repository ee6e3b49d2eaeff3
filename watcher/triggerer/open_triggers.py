"""An open trigger as the daemon uses it, wherever its code runs, and the one whose class this process has imported."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from triggers.base import (
    BaseEventTrigger,
    Finding,
    JsonValue,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
)
from triggers.hosting import Parks, Polls, Reselects, Retells, Wakes

AbilityT = TypeVar("AbilityT")


class OpenTrigger(Protocol):
    """A trigger that is open. Each method raises what the trigger raises there, and a trigger may raise anything."""

    @property
    def options(self) -> BaseModel:
        """The options that it was made with."""

    @property
    def context(self) -> TriggerContext: ...

    @property
    def client(self) -> Any:
        """The client of this process that it uses. None: it uses one of another process."""

    def ability(self, ability: type[AbilityT]) -> AbilityT | None:
        """Return what has the ability: the trigger, or what asks it in its own process. None: there it lacks the ability.

        `ability` is a Protocol whose methods a trigger's class has, or has not.
        """

    @property
    def parking(self) -> Parks | None:
        """What parks it. None: it keeps its task while it rests."""

    async def check(self) -> list[Finding]: ...

    def source_identity(self) -> JsonValue: ...

    async def recognizes(self, stored: JsonValue) -> bool:
        """Whether a checked trigger recognizes its source in the stored identity of a position."""

    async def reselects(self, stored: JsonValue) -> bool:
        """Whether the stored identity of a position means this source with another selection of its items."""

    async def decisions(self, position: StoredPosition) -> str:
        """Say what people may decide about the position of another selection, once it `reselects`."""

    def events(
        self, position: StoredPosition | None, *, kept: StoredPosition | None = None
    ) -> AsyncGenerator[TriggerBatch, None]:
        """Yield the batches that follow the position. `kept` is the one before a rewind that can be undone."""

    def poll_once(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None] | None:
        """Yield what the next poll finds. None: it does not poll, it waits for its source."""

    async def rewound(self, position: StoredPosition | None, to: str) -> Position:
        """Return the position at which it continues after a rewind."""

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool | None:
        """Whether nothing of a batch of `events` would come again from `kept`. None: the trigger does not judge that."""

    def wake(self) -> None:
        """Have the next poll now, if it polls. The hint may be lost."""


class TriggerHere:
    """An open trigger of a class that this process has imported."""

    __slots__ = ("parking", "trigger")

    def __init__(self, trigger: BaseEventTrigger[Any, Any]) -> None:
        self.trigger = trigger
        self.parking = self.ability(Parks)

    @property
    def context(self) -> TriggerContext:
        return self.trigger.context

    @property
    def options(self) -> BaseModel:
        options: BaseModel = self.trigger.options
        return options

    @property
    def client(self) -> Any:
        return self.trigger.client

    def ability(self, ability: type[AbilityT]) -> AbilityT | None:
        return self.trigger if isinstance(self.trigger, ability) else None

    async def check(self) -> list[Finding]:
        return await self.trigger.check()

    def source_identity(self) -> JsonValue:
        return self.trigger.source_identity()

    async def recognizes(self, stored: JsonValue) -> bool:
        return self.trigger.recognizes(stored)

    async def reselects(self, stored: JsonValue) -> bool:
        able = self.ability(Reselects)
        return able is not None and able.reselects(stored)

    async def decisions(self, position: StoredPosition) -> str:
        able = self.ability(Reselects)
        return "" if able is None else await able.decisions(position)

    def events(
        self,
        position: StoredPosition | None,
        *,
        kept: StoredPosition | None = None,  # noqa: ARG002  `retold` gets it
    ) -> AsyncGenerator[TriggerBatch, None]:
        return self.trigger.events(position)

    def poll_once(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None] | None:
        able = self.ability(Polls)
        return None if able is None else able.poll(position)

    async def rewound(self, position: StoredPosition | None, to: str) -> Position:
        return self.trigger.rewound(position, to)

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool | None:
        if (able := self.ability(Retells)) is None:
            return None
        return bool(kept.state) and able.retold(kept, batch)

    def wake(self) -> None:
        if (able := self.ability(Wakes)) is not None:
            able.wake()
