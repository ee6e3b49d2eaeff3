"""Mode `updated_at`: the open transactions of the database, the server's clock, and which transactions are open for too long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import anyio

from triggers.base import JsonObject
from triggers.postgres.by_update.window import (
    BEFORE_ALL_TIME,
    XID_SPACE,
    TransactionSnapshot,
    VersionMemory,
    VersionWindow,
    moment_text,
)
from triggers.postgres.catalog.statements import XID_HOLDER
from triggers.postgres.options import GapAlarm
from triggers.postgres.reading.alarms import AlarmReason, is_older
from triggers.postgres.server.locks import LockSet
from triggers.postgres.sql import ALIVE
from triggers.postgres.table.watched_table import WatchedTable

MOST_HANDLED: Final = 100_000
"""The number of remembered xids at which it is an alarm, however young the transaction is that keeps them."""

CLOCK_JITTER: Final = timedelta(seconds=0.5)
"""The amount by which two readings of the server's clock may disagree; the margin of a checkpoint's moment is larger."""


class LivingTransactions:
    """Lists the open transactions of the database, again and again."""

    __slots__ = ("_clock", "_table", "earliest")

    def __init__(self, table: WatchedTable) -> None:
        self._table = table
        self.earliest: int | None = None
        """The process of the oldest multi-statement text that is still running."""
        self._clock: tuple[float, datetime] | None = None
        """When the last list was asked for, and what the server's clock showed then."""

    async def read(self, memory: VersionMemory) -> tuple[LockSet, str | None]:
        """Return the list, and the lowest moment that the server's clock may have shown since the last list if it went back."""
        asked_at = anyio.current_time()
        [row] = await self._table.fetch(ALIVE, repeated=True)
        since, self.earliest = row["earliest"] or (None, None)
        living = LockSet(boot=row["boot"], at=row["moment"], holders=dict(row["alive"]), since=since)
        return living, self._clock_went_back_to(living, memory, asked_at)

    def _clock_went_back_to(self, living: LockSet, memory: VersionMemory, asked_at: float) -> str | None:
        boot, now, before = memory.window.boot, datetime.fromisoformat(living.at), self._clock
        self._clock = (asked_at, now)
        if boot not in ("", living.boot):  # the examination of the server's history has set the floor back
            return None
        if before is not None:
            lowest = now - timedelta(seconds=anyio.current_time() - before[0])
            return moment_text(lowest) if lowest < before[1] - CLOCK_JITTER else None
        is_behind = bool(boot) and memory.window.xmin is not None and living.at < memory.until
        return BEFORE_ALL_TIME if is_behind else None


class LongTransactions:
    """Judges mode `updated_at`: which open transaction keeps the floor down, or keeps many xids remembered."""

    __slots__ = ("_limits", "_since", "_table", "_xmin")

    def __init__(self, table: WatchedTable, limits: GapAlarm) -> None:
        self._table = table
        self._limits = limits
        self._since: Mapping[str, str] = {}
        """The transactions that keep the floor down, and since when each has been waited for."""
        self._xmin: tuple[int, str] = (0, "")
        """The xmin of the last snapshot, and since when it has been that."""

    async def reason(
        self, window: VersionWindow, living: LockSet, earliest: int | None, snapshot: TransactionSnapshot
    ) -> AlarmReason | None:
        """Name one of the transactions that have been open for the longest time, or the one that keeps many xids remembered.

        `earliest` is the process of the oldest multi-statement text, whose time is the moment of the first checkpoint.
        """
        if self._xmin[0] != snapshot.xmin:
            self._xmin = (snapshot.xmin, living.at)
        if window.checkpoints:
            first = window.checkpoints[
                0
            ]  # its moment is that of the oldest text, if there is one, else that of the list
            self._since = {name: self._since.get(name, living.at) for name in first.alive}
            by_text = {
                name: first.moment for name, pid in living.holders.items() if pid is not None and pid == earliest
            }
            since, transaction = min((moment, name) for name, moment in [*self._since.items(), *by_text.items()])
            if is_older(since, living.at, self._limits.age):
                return AlarmReason(
                    text="a transaction is open for too long: each poll reads again what was updated since; end it",
                    transaction=transaction,
                    oldest=_holder(transaction, living.holders.get(transaction), since),
                )
        if not self._remembers_many(window, living):
            return None
        for row in await self._table.fetch(XID_HOLDER, str(snapshot.xmin % XID_SPACE)):
            return AlarmReason(
                text=f"{len(window.handled):,} transactions are remembered until the oldest of the server ends; end it",
                transaction=row["transaction"],
                oldest=_holder(row["transaction"], row["pid"], self._xmin[1]),
            )
        return None

    def _remembers_many(self, window: VersionWindow, living: LockSet) -> bool:
        """Return whether an alarm is due for the number of xids: a transaction of another database, in no list here, keeps them too."""
        many = len(window.handled)
        return many >= MOST_HANDLED or (
            many >= self._limits.count and is_older(self._xmin[1], living.at, self._limits.age)
        )


def _holder(transaction: str, pid: int | None, since: str) -> JsonObject:
    return {"transaction": transaction, "pid": pid, "since": since}
