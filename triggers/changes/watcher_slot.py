"""One watcher's slot, from its first position to its end."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from typing import Final

from triggers.base import TriggerContext
from triggers.changes.log_position import LogPosition, lsn_text
from triggers.changes.session import SlotSession
from triggers.changes.slot import IN_USE, SlotState, create, drop, lost_sentence, slot_name
from triggers.changes.statements import ADVANCE
from triggers.errors import SourceChanged, SourceUnavailable
from triggers.shared.postgres.failures import sqlstate_of

FIRST_PATIENCE: Final = 5.0
MOST_PATIENCE: Final = 60.0
"""Seconds in which the transactions that were open must end before a slot is tried anew. Each attempt takes twice as long."""


class WatcherSlot:
    """The slot that a watcher reads, by the name in its position."""

    def __init__(self, session: SlotSession, context: TriggerContext, attempts: Counter[str]) -> None:
        """`attempts` counts for each slot how often it could not be made yet."""
        self.name = slot_name(context.installation, context.watcher)
        self._session = session
        self._context = context
        self._attempts = attempts

    async def begin(self, server_version: int, replaced: str | None) -> LogPosition:
        """Make the slot, or take one that a start made before it could commit a position. Drop the one that is `replaced`.

        Raises `SourceBusy` while open transactions keep it from beginning, and `SourceChanged` if the one that is there is lost.
        """
        if replaced is not None:
            await drop(self._session, replaced)
            await self.drop()
        slot = await SlotState.read(self._session, self.name)
        if slot.is_there:
            return LogPosition(end=slot.refuse_lost(None, self._context.watcher))
        patience = min(FIRST_PATIENCE * 2 ** self._attempts[self.name], MOST_PATIENCE)
        self._attempts[self.name] += 1
        begins = await create(self._session, self.name, server_version, patience)
        del self._attempts[self.name]
        return LogPosition(end=begins)

    async def read(self, position: LogPosition | None) -> SlotState:
        """Return the slot's state. Raises `SourceChanged` if it is lost, `SourceBusy` if another client reads it now."""
        slot = await SlotState.read(self._session, self.name)
        slot.refuse_lost(position, self._context.watcher)
        slot.refuse_in_use()
        return slot

    async def advance(self, confirmed: int, to: int) -> None:
        """Let the server forget what was committed. If that fails, the next read recognizes it."""
        if to <= confirmed or self._context.dry_run:
            return
        limit = self._context.poll_timeout
        try:
            async with aclosing(self._session.parts(ADVANCE, self.name, lsn_text(to), size=1, limit=limit)) as parts:
                async for _ in parts:
                    pass
        except SourceUnavailable as error:
            if sqlstate_of(error) != IN_USE:
                raise

    async def drop(self) -> None:
        """Drop the slot, if it is there and this is no preview."""
        if not self._context.dry_run:
            await drop(self._session, self.name)

    def lost(self, fault: str, position: LogPosition | None) -> SourceChanged:
        """Return the error of a slot with this fault."""
        return SourceChanged(lost_sentence(self.name, fault, position, self._context.watcher))
