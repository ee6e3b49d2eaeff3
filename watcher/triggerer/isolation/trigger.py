"""A trigger whose code runs in a child. To its host it is a trigger like any other.

`next` is sent when the host asks for the next batch, which it does after committing the one before. To the child, `next` is
the acknowledgement of that commit.
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
from triggers.explanations import Explanation
from watcher.triggerer.isolation.batch_frames import findings_from_json, stored_contents
from watcher.triggerer.isolation.child_handle import Child
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.errors import TriggerFailed
from watcher.triggerer.isolation.wire import BrokenFrame


@dataclass(frozen=True, kw_only=True)
class ForeignTrigger:
    """Everything a child needs to make a trigger. This process imports nothing of the trigger's."""

    path: str
    """The dotted path of its class."""
    options: Mapping[str, Any]
    """The options in the YAML, with the defaults that the asset's URI implies."""
    connection: Mapping[str, Any] | None
    """`class`, the dotted path, and `options`, as in the YAML, with secrets in clear."""
    folder: Path
    """The folder where relative paths start."""
    format: int = 1
    """The format of the states that its class yields."""

    @asynccontextmanager
    async def open(self, children: Children, context: TriggerContext) -> AsyncIterator[IsolatedTrigger]:
        """Make the trigger in a child of its own, which ends with the block. Raise what the trigger's constructor raised."""
        request = {
            "do": "start",
            "trigger": self.path,
            "options": dict(self.options),
            "connection": self.connection,
            "folder": str(self.folder),
            "watcher": context.watcher,
            "dry_run": context.dry_run,
            "has_position": context.has_position,
            "poll_timeout": context.poll_timeout.total_seconds(),
            "installation": context.installation,
            "manifests": [*context.manifests],
        }
        async with children.open(context.watcher, only_one=not context.dry_run) as child:
            await child.ask(request, "making the trigger", within=children.settings.answer_within)
            yield IsolatedTrigger(child, children, context)


class IsolatedTrigger(BaseEventTrigger[BaseOptions, Child]):
    """Sends what the host requests to a child. Each method may raise what the trigger raised, or `TriggerFailed`."""

    def __init__(self, child: Child, children: Children, context: TriggerContext) -> None:
        super().__init__(BaseOptions(), child, context)
        self._within = children.settings.answer_within
        self._identity: JsonValue = None
        self._retold: bool | None = None
        """What the child's trigger said of the last batch; None if it said nothing."""

    async def check(self) -> list[Finding]:
        answer, _ = await self.client.ask({"do": "check"}, "`check`", within=self._within)
        try:
            findings = findings_from_json(answer["findings"])
            self._identity = answer["identity"]
        except (KeyError, TypeError) as error:
            raise _broken(error) from error
        return findings

    def source_identity(self) -> JsonValue:
        return self._identity

    def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        return self._batches("events", position)

    def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Poll the source once. Raise `ConfigurationError` if the trigger is not a polling trigger."""
        return self._batches("poll", position)

    async def ask_rewound(self, position: StoredPosition | None, to: str) -> Position:
        """Ask the child for `rewound`. The host calls this instead, because it has to wait for the answer."""
        contents = stored_contents({"do": "rewound", "to": to}, position)
        answer, parts = await self.client.ask_in_parts(contents, "`rewound`", within=self._within)
        try:
            rewound = parts.batch(answer).position
        except BrokenFrame as error:
            raise _broken(error) from error
        if rewound is None:
            raise ConfigurationError(f"the trigger returned no position for {to!r}")
        return rewound

    async def explain(self, item: str, position: StoredPosition | None) -> Explanation:
        contents = stored_contents({"do": "explain", "item": item}, position)
        answer, _ = await self.client.ask_in_parts(contents, "`explain`", within=self._within)
        try:
            return Explanation.from_json(answer["explanation"])
        except (KeyError, TypeError) as error:
            raise _broken(error) from error

    async def ask_recognizes(self, stored: JsonValue) -> bool:
        """Ask the child for `recognizes`."""
        answer, _ = await self.client.ask({"do": "recognizes", "identity": stored}, "`recognizes`", within=self._within)
        return answer.get("recognizes") is True

    async def ask_reselects(self, stored: JsonValue) -> bool:
        """Ask the child for `reselects`."""
        answer, _ = await self.client.ask({"do": "reselects", "identity": stored}, "`reselects`", within=self._within)
        return answer.get("reselects") is True

    async def decisions(self, position: StoredPosition) -> str:
        contents = stored_contents({"do": "decisions"}, position)
        answer, _ = await self.client.ask_in_parts(contents, "`decisions`", within=self._within)
        return str(answer.get("decisions", ""))

    async def keep(self, position: StoredPosition) -> None:
        """Give the child the position before a rewind that can be undone. Each batch then comes with what `retold` says of it.

        Call it before `events`.
        """
        await self.client.ask_in_parts(stored_contents({"do": "keep"}, position), "`retold`", within=self._within)

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool:  # noqa: ARG002  the child's trigger compared them
        return self._retold is True

    @property
    def knows_what_is_retold(self) -> bool:
        return self._retold is not None

    async def wake(self) -> None:
        """Pass on a hint that there may be something new."""
        await self.client.wake()

    async def _batches(self, what: str, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        await self.client.ask_in_parts(stored_contents({"do": what}, position), f"`{what}`", within=self._within)
        within: float | None = self._within
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
                within = None  # a trigger may wait for its source without limit


def _broken(error: Exception) -> TriggerFailed:
    return TriggerFailed(f"the trigger's process gave a malformed answer ({error})")
