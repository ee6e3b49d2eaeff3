"""A trigger whose code runs in a child, to its host a trigger like any other.

`next` is asked for when the host asks for the next batch, which it does once it has committed the one before: to the child
it is the acknowledgement.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triggers.base import (
    BaseEventTrigger,
    BaseOptions,
    Finding,
    JsonValue,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
)
from triggers.errors import ConfigurationError
from watcher.triggerer.isolation.child_handle import Child, TriggerFailed
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.wire import BrokenFrame, stored_contents


@dataclass(frozen=True, kw_only=True)
class ForeignTrigger:
    """A trigger that runs in a child: all by which the child makes it. Nothing of it is imported here."""

    path: str
    """The dotted path of its class."""
    options: Mapping[str, Any]
    """As the YAML has them, and what the asset's URI implies."""
    connection: Mapping[str, Any] | None
    """`class`, its dotted path, and `options`, as the YAML has them, secrets in clear."""
    folder: Path
    """Where relative paths start."""
    format: int = 1
    """Of the states that its class yields."""

    @asynccontextmanager
    async def open(self, children: Children, context: TriggerContext) -> AsyncIterator[IsolatedTrigger]:
        """One made in a child of its own, which ends with the block. Raises whatever making it raised."""
        request = {
            "do": "start",
            "trigger": self.path,
            "options": dict(self.options),
            "connection": self.connection,
            "folder": str(self.folder),
            "watcher": context.watcher,
            "dry_run": context.dry_run,
            "poll_timeout": context.poll_timeout.total_seconds(),
        }
        async with children.open(context.watcher, only_one=not context.dry_run) as child:
            await child.ask(request, "making the trigger", within=children.settings.answer_within)
            yield IsolatedTrigger(child, children, context)


class IsolatedTrigger(BaseEventTrigger[BaseOptions, Child]):
    """What the host asks, a child answers. Raises what the trigger raised, or `TriggerFailed`."""

    def __init__(self, child: Child, children: Children, context: TriggerContext) -> None:
        super().__init__(BaseOptions(), child, context)
        self._within = children.settings.answer_within
        self._batch_within = children.settings.batch_within
        self._identity: JsonValue = None
        self._retold: bool | None = None
        """Of the last batch, where the child's trigger says it."""

    async def check(self) -> list[Finding]:
        answer, _ = await self.client.ask({"do": "check"}, "`check`", within=self._within)
        try:
            findings = [Finding(**finding) for finding in answer["findings"]]
            self._identity = answer["identity"]
        except (KeyError, TypeError) as error:
            raise _broken(error) from error
        return findings

    def source_identity(self) -> JsonValue:
        return self._identity

    def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        return self._batches("events", position)

    def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """One look at the source, of a trigger that polls. Raises `ConfigurationError` of another one."""
        return self._batches("poll", position)

    async def ask_rewound(self, position: StoredPosition | None, to: str) -> Position:
        """`rewound` needs an answer of the child, so it is this that the host calls."""
        contents = stored_contents({"do": "rewound", "to": to}, position)
        answer, parts = await self.client.ask_with(contents, "`rewound`", within=self._within)
        try:
            moved = parts.batch(answer).position
        except BrokenFrame as error:
            raise _broken(error) from error
        if moved is None:
            raise ConfigurationError(f"the trigger gave no position for {to!r}")
        return moved

    async def keep(self, position: StoredPosition) -> None:
        """The position before a rewind that can be undone, before `events`: each batch comes with what `retold` says then."""
        await self.client.ask_with(stored_contents({"do": "keep"}, position), "`retold`", within=self._within)

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:  # noqa: ARG002  it was asked where the batch was made
        return self._retold is True

    @property
    def knows_what_is_retold(self) -> bool:
        return self._retold is not None

    async def wake(self) -> None:
        """A hint that something may be new."""
        await self.client.wake()

    async def _batches(self, what: str, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        await self.client.ask_with(stored_contents({"do": what}, position), f"`{what}`", within=self._within)
        within: float | None = self._batch_within
        while True:
            answer, parts = await self.client.ask({"do": "next"}, "the first batch", within=within)
            if "end" in answer:
                return
            try:
                batch = parts.batch(answer)
            except BrokenFrame as error:
                raise _broken(error) from error
            self._retold = answer.get("retold")
            yield batch
            if what == "events":
                within = None  # it may wait for its source as long as it likes


def _broken(error: Exception) -> TriggerFailed:
    return TriggerFailed(f"the trigger's process gave an answer that is none ({error})")
