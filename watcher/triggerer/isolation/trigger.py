"""A trigger whose code runs in a child. To its host it is a trigger like any other.

`next` is sent when the host asks for the next batch, which it does after committing the one before. To the child, `next` is
the acknowledgement of that commit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

from triggers.base import BaseOptions, Finding, JsonValue, Position, StoredPosition, TriggerBatch, TriggerContext
from triggers.errors import ConfigurationError
from triggers.explanations import Explanation
from watcher.host.loops import keep_going
from watcher.triggerer.clients import ForeignTrigger
from watcher.triggerer.isolation.batch_frames import findings_from_json, stored_contents
from watcher.triggerer.isolation.child_handle import Child
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.errors import TriggerFailed
from watcher.triggerer.isolation.wire import BrokenFrame
from watcher.triggerer.open_triggers import AbilityT


@dataclass(frozen=True)
class OwnProcesses:
    """Runs each trigger in a child of its own: the `Isolation` of a process."""

    children: Children

    @asynccontextmanager
    async def open(self, trigger: ForeignTrigger, context: TriggerContext) -> AsyncIterator[IsolatedTrigger]:
        """Make a trigger in a child, which ends with the block. Raise what the trigger's constructor raised."""
        request = {
            "do": "start",
            "trigger": trigger.path,
            "options": dict(trigger.options),
            "connection": trigger.connection,
            "folder": str(trigger.folder),
            "watcher": context.watcher,
            "dry_run": context.dry_run,
            "has_position": context.has_position,
            "poll_timeout": context.poll_timeout.total_seconds(),
            "installation": context.installation,
            "manifests": [*context.manifests],
        }
        children, within = self.children, self.children.settings.answer_within
        async with children.open(context.watcher, only_one=not context.dry_run) as child:
            answer, _ = await child.ask(request, "making the trigger", within=within)
            yield IsolatedTrigger(child, children, context, answer.get("abilities", ()))


class IsolatedTrigger:
    """Sends what the host requests to a child. Each method may raise what the trigger raised, or `TriggerFailed`."""

    client: None = None
    parking: None = None

    def __init__(self, child: Child, children: Children, context: TriggerContext, abilities: Collection[str]) -> None:
        self.context = context
        self.options = BaseOptions()
        self.child = child
        self.children = children
        self._abilities = abilities
        self._within = children.settings.answer_within
        self._identity: JsonValue = None
        self._retold: bool | None = None
        """What the child's trigger said of the last batch; None if it said nothing."""

    def ability(self, ability: type[AbilityT]) -> AbilityT | None:
        """Return this object for an ability that the trigger has in its process, and that works over the wire."""
        return self if ability.__name__ in self._abilities and isinstance(self, ability) else None

    async def check(self) -> list[Finding]:
        answer, _ = await self.child.ask({"do": "check"}, "`check`", within=self._within)
        try:
            findings = findings_from_json(answer["findings"])
            self._identity = answer["identity"]
        except (KeyError, TypeError) as error:
            raise _broken(error) from error
        return findings

    def source_identity(self) -> JsonValue:
        return self._identity

    def events(
        self, position: StoredPosition | None, *, kept: StoredPosition | None = None
    ) -> AsyncGenerator[TriggerBatch, None]:
        return self._batches("events", position, kept)

    def poll_once(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        """Poll the source once. Raise `ConfigurationError` if the trigger is not a polling trigger."""
        return self._batches("poll", position)

    async def rewound(self, position: StoredPosition | None, to: str) -> Position:
        contents = stored_contents({"do": "rewound", "to": to}, position)
        answer, parts = await self.child.ask_in_parts(contents, "`rewound`", within=self._within)
        try:
            rewound = parts.batch(answer).position
        except BrokenFrame as error:
            raise _broken(error) from error
        if rewound is None:
            raise ConfigurationError(f"the trigger returned no position for {to!r}")
        return rewound

    async def explain(self, item: str, position: StoredPosition | None) -> Explanation:
        contents = stored_contents({"do": "explain", "item": item}, position)
        answer, _ = await self.child.ask_in_parts(contents, "`explain`", within=self._within)
        try:
            return Explanation.from_json(answer["explanation"])
        except (KeyError, TypeError) as error:
            raise _broken(error) from error

    async def survey(self) -> Finding | None:
        answer, _ = await self.child.ask({"do": "survey"}, "`survey`", within=self._within)
        try:
            return next(iter(findings_from_json(answer["findings"])), None)
        except (KeyError, TypeError) as error:
            raise _broken(error) from error

    async def recognizes(self, stored: JsonValue) -> bool:
        answer, _ = await self.child.ask({"do": "recognizes", "identity": stored}, "`recognizes`", within=self._within)
        return answer.get("recognizes") is True

    async def reselects(self, stored: JsonValue) -> bool:
        answer, _ = await self.child.ask({"do": "reselects", "identity": stored}, "`reselects`", within=self._within)
        return answer.get("reselects") is True

    async def decisions(self, position: StoredPosition) -> str:
        contents = stored_contents({"do": "decisions"}, position)
        answer, _ = await self.child.ask_in_parts(contents, "`decisions`", within=self._within)
        return str(answer.get("decisions", ""))

    def retold(self, kept: StoredPosition, batch: TriggerBatch) -> bool | None:  # noqa: ARG002  the child compared them
        return self._retold

    def wake(self) -> None:
        """Pass on a hint that there may be something new."""
        self.children.start_soon(self._wake)

    async def _wake(self) -> None:
        async with keep_going("watcher.wake_failed"):  # the child may end meanwhile
            await self.child.wake()

    async def _batches(
        self, what: str, position: StoredPosition | None, kept: StoredPosition | None = None
    ) -> AsyncGenerator[TriggerBatch, None]:
        """Ask for batches. `kept` is the position before a rewind: with it, each batch comes with what `retold` says of it."""
        if kept is not None:
            await self.child.ask_in_parts(stored_contents({"do": "keep"}, kept), "`retold`", within=self._within)
        await self.child.ask_in_parts(stored_contents({"do": what}, position), f"`{what}`", within=self._within)
        within: float | None = self._within
        while True:
            answer, parts = await self.child.ask({"do": "next"}, "the first batch", within=within)
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
