"""Leader election: one process schedules and starts runs. The others stand by and take over when its lease has expired.

A leader that resumes after a suspension learns in its next transaction, before anything is written, that it has lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.errors import NotLeading
from store.processes import leaders
from triggers.shared.delays import sleep_for
from watcher.host.health import Health
from watcher.host.loops import insist, keep_going

AFTER_EXPIRY: Final = timedelta(milliseconds=20)
"""The time by which a process that stands by sleeps past the end of the leader's lease, so that it has ended."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Leadership:
    """The leadership of this process as `owner`, the id of its home. `on_taken` is called when it begins to lead."""

    database: Database
    owner: str
    heartbeat: timedelta
    lease: timedelta
    on_taken: Callable[[], None]
    health: Health = field(default_factory=Health)
    _epoch: int | None = None
    _again_in: timedelta = timedelta(0)

    @property
    def leads(self) -> bool:
        """True if this process leads, as far as it knows. `transaction` makes sure."""
        return self._epoch is not None

    @property
    def term(self) -> int | None:
        """The number of the leader's term. It changes whenever another process may have led. None while this process stands by."""
        return self._epoch

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Campaign until cancelled, then resign. Counts as started once the leader is known."""
        try:
            await insist("leader.campaign_failed", self.campaign)
            task_status.started()
            while True:
                await sleep_for(self._again_in.total_seconds())
                self._again_in = self.heartbeat  # also when this campaign fails
                async with keep_going("leader.campaign_failed"):
                    await self.campaign()
        finally:
            with anyio.CancelScope(shield=True):
                async with keep_going("leader.resigning_failed"):
                    await self._resign()

    async def campaign(self) -> None:
        """Renew the lease, or take it when nobody holds it. A process that stands by sleeps until the lease would end."""
        await self._renew_or_take()
        self.health.beat("leader election", self.heartbeat)

    async def _renew_or_take(self) -> None:
        self._again_in = self.heartbeat
        async with self.database.statements() as connection:
            if self._epoch is not None:
                if await leaders.renew(connection, self._epoch, self.lease):
                    return
                self._step_down()
            campaign = await leaders.take(connection, self.owner, self.lease, self.database.dialect)
        if campaign.epoch is None:
            self._again_in = min(self.heartbeat, campaign.expires_in + AFTER_EXPIRY)
            return
        self._epoch = campaign.epoch
        log.info("leader.taken", epoch=campaign.epoch)
        self.on_taken()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a writing transaction that only the leader can commit. Raises `NotLeading`."""
        if self._epoch is None:
            raise NotLeading("this process stands by")
        epoch = self._epoch
        try:
            async with self.database.transaction() as connection:
                await leaders.hold(connection, epoch)
                yield connection
        except NotLeading:
            self._step_down()
            raise

    def _step_down(self) -> None:
        log.warning("leader.lost", epoch=self._epoch)
        self._epoch = None

    async def _resign(self) -> None:
        if self._epoch is not None:
            async with self.database.transaction() as connection:
                await leaders.resign(connection, self._epoch)
