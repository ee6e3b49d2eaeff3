"""Which watchers fall to this triggerer, kept up to date with the processes that live and the configuration applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watchers
from store.database import Database, configuration_lock
from store.detection import positions
from store.processes import triggerers
from store.processes.triggerers import LivingTriggerer
from watcher.host.health import Health
from watcher.triggerer.assignment import Assignment, anybody, assign, knows
from watcher.triggerer.clients import Hosted

_NO_ROOM: Final = "no triggerer has room for it; raise settings.triggerer.capacity, or start another triggerer"
_UNKNOWN: Final = (
    "no living triggerer has its definition as it was applied; give each of them the same file, and `watcher reload`"
)

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class AssignmentWatch:
    """The assignment of watchers to triggerers, as process `owner` sees it, and the watchers that nobody hosts.

    `configuration` is the hash of the one that `hosted` is from. This process hosts the watchers that were applied with
    the same definition; None: all of them.
    """

    database: Database
    owner: str
    hosted: Mapping[str, Hosted]
    configuration: str | None
    capacity: int
    health: Health
    _living: Mapping[str, LivingTriggerer] = field(default_factory=dict)
    _heard: frozenset[str] = frozenset()
    _applied_hash: str | None = None
    _announced: Mapping[str, Hosted] | None = None
    _assignment: Assignment = field(default_factory=Assignment)

    @property
    def ours(self) -> frozenset[str]:
        """The configured watchers that fall to this process."""
        return self._assignment.of(self.owner) & self.hosted.keys()

    async def announce(self, connection: AsyncConnection) -> None:
        """Store the definitions of this process's watchers, once for each configuration."""
        if self._announced is not (hosted := self.hosted):
            definitions = {name: watcher.definition for name, watcher in hosted.items()}
            await triggerers.announce(connection, self.owner, self.configuration, definitions)
            self._announced = hosted

    async def refresh(self, connection: AsyncConnection, living: Sequence[LivingTriggerer]) -> None:
        """Assign again if the living processes, their configurations, or the applied configuration have changed."""
        alive = {process.id: replace(process, expires_in=timedelta(0)) for process in living}
        alive[self.owner] = LivingTriggerer(
            id=self.owner, capacity=self.capacity, expires_in=timedelta(0), configuration=self.configuration
        )
        hash_ = await configuration_lock.applied_hash(connection)
        if (hash_, alive) == (self._applied_hash, self._living):
            return
        applied = await watchers.definitions(connection)
        others = [process.id for process in alive.values() if process.configuration != hash_]
        # A process that has announced nothing yet knows nothing. Once it announces, the living have changed.
        definitions = {**{name: {} for name in others}, **await triggerers.announced(connection, others)}
        definitions[self.owner] = {name: watcher.definition for name, watcher in self.hosted.items()}
        may_host = anybody if self.configuration is None else knows(applied, definitions)
        capacities = {process.id: process.capacity for process in alive.values()}
        self._assignment = assign(applied, capacities, may_host)
        self._applied_hash, self._living = hash_, alive

    async def show_unhosted(self, idle: frozenset[str]) -> None:
        """Show which of the `idle` watchers start at now and may have no living host.

        A process that was killed counts as living until its lease ends. A process that beats after us lives, and its own
        readiness waits for what it hosts.
        """
        hosts = {name: self._assignment.hosts.get(name) for name in idle if self.hosted[name].facts.starts_now}
        names = [name for name, host in hosts.items() if host is not None and host not in self._heard]
        owners: Mapping[str, str | None] = {}
        if names:
            async with self.database.statements() as connection:
                self._heard = await triggerers.heard_others(connection, self.owner)
                owners = await positions.unbegun(connection, names)
        self.health.unhosted = frozenset(
            name for name, owner in owners.items() if not self._heard & {owner, hosts[name]}
        )

    async def show_unassigned(self, unreadable: Mapping[str, str]) -> None:
        """Show the watchers that nobody hosts, and those whose positions are `unreadable` here, with the reasons.

        The first of the living processes records what nobody has room for; each records what it cannot read.
        """
        nobody = dict.fromkeys(self._assignment.unassigned, _NO_ROOM) | dict.fromkeys(
            self._assignment.unknown, _UNKNOWN
        )
        before, self.health.left_out = self.health.left_out, {**unreadable, **nobody}
        speaks = self.owner == min(self._living)
        if reasons := self.health.left_out if speaks else unreadable:
            async with self.database.statements() as connection:
                await watchers.set_unassigned(connection, reasons)
        for reason in sorted(set(self.health.left_out.values()) - set(before.values())):
            names = sorted(name for name, why in self.health.left_out.items() if why == reason)
            log.error("watcher.left_out", watchers=names, reason=reason)
