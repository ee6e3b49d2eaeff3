"""The configuration that this process runs, and its replacement by another: completely, or not at all.

In order: the file is read and checked without reaching any source -> this process prepares for it -> one transaction
applies it -> the rooms of this process adopt it -> other processes are notified, and each reads its own file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from config.errors import ConfigurationInvalid, Problem
from config.models import Configuration
from config.models.changes import ConfigurationChanges, changes, restart_sentence
from config.reading.sources import Stamps, folders, stamps
from store.catalog import assets, catalog_sync
from store.catalog.catalog_sync import Applied, Declared
from store.database import Database, configuration_lock
from store.errors import Conflict
from store.processes import audit, installation, triggerers
from triggers.shared.delays import sleep_for
from watcher.configuration.reload_outcome import ReloadOutcome, ReloadRefused, Result
from watcher.errors import StartRefused
from watcher.host.health import Health
from watcher.host.loops import insist, keep_going
from watcher.host.metadata import patiently
from watcher.host.metrics import Metrics
from watcher.scheduling.tries.submissions import Submissions

CHECK_EVERY: Final = 30.0
"""Seconds between two checks for a configuration that another process has applied: its hint may be lost."""
RETRY_AFTER: Final = 5.0
"""Seconds before a reload is retried that the database kept from being applied."""
PATIENCE: Final = 10.0
_SETTLING: Final = 1.2
"""The time after a start, in leases, in which our killed predecessor may still seem alive."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class StartedWith:
    """The asset ids by name (0: unknown to the database), and whether this process's configuration was applied."""

    asset_ids: Mapping[str, int]
    is_applied: bool
    instance: str
    """The id by which other systems know the database."""


async def start_configuration(database: Database, declaration: Declared, *, force: bool) -> StartedWith:
    """Apply the configuration of a starting process, if allowed. `force`: also while a process with another one lives."""

    async def apply() -> StartedWith:
        async with database.transaction() as connection:
            applied = await apply_at_start(connection, declaration, force=force)
            asset_ids = await assets.ids_by_name(connection) if applied is None else applied.asset_ids
            instance = await installation.instance(connection, connection.dialect.name)
        return StartedWith(asset_ids=defaultdict(int, asset_ids), is_applied=applied is not None, instance=instance)

    return await patiently(apply)


async def apply_at_start(connection: AsyncConnection, declaration: Declared, *, force: bool) -> Applied | None:
    """Apply a declaration. None: a process lives that runs another configuration, which was applied."""
    before = await configuration_lock.lock_hash(connection)
    if not force and before not in {None, declaration.hash} and await _lives(connection, before):
        return None
    applied = await catalog_sync.apply(connection, declaration, connection.dialect.name)
    if before not in {None, declaration.hash}:
        detail = {"before": before, "dequeued": applied.dequeued, "kept": applied.kept, **applied.counts}
        await audit.record(connection, "start", audit.APPLIED_AT_START, declaration.hash, detail)
    return applied


async def _lives(connection: AsyncConnection, hash_: str | None) -> bool:
    if connection.dialect.name == "sqlite":
        return False  # there is no other process
    return any(each.configuration == hash_ for each in await triggerers.configurations(connection))


@dataclass(kw_only=True, eq=False)
class Reloader:
    """Replaces the configuration of a process.

    `load` reads the file as at the start, with the environment of the start, and may block; raises `ConfigurationInvalid`.
    `declare` returns what the database mirrors of a configuration. `prepare` makes what tries are started with, or raises
    `StartRefused`. `adopt` gives the new configuration to the
    rooms of this process and must not fail. `announce` notifies other processes.
    """

    configuration: Configuration
    database: Database
    lease: timedelta
    load: Callable[[Path], Configuration]
    declare: Callable[[Configuration], Declared]
    prepare: Callable[[Configuration], Submissions]
    adopt: Callable[[Configuration, ConfigurationChanges, Mapping[str, int], Submissions], Awaitable[None]]
    announce: Callable[[str], None]
    health: Health
    metrics: Metrics
    is_applied: bool = True
    """Whether the start of this process applied its configuration. False: another one was applied, and its process lived."""
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _asked: anyio.Event = field(default_factory=anyio.Event)
    _actors: set[str] = field(default_factory=set)
    _follows: bool = False
    _applied_hash: str | None = None

    def __post_init__(self) -> None:
        self._read_as: Stamps = self.configuration.read_as
        self._secrets = self.configuration.secrets

    @property
    def is_stale(self) -> bool:
        """Whether the files differ from those that were read last, whatever came of that."""
        return self.stamps != self._read_as

    @property
    def stamps(self) -> Stamps:
        """The stamps of the files as they are now."""
        return stamps(self.configuration.file, self._secrets)

    @property
    def folders(self) -> frozenset[Path]:
        """The folders of the files."""
        return folders(self.configuration.file, self._secrets)

    def request(self, actor: str) -> None:
        """Reload soon. The outcome appears in log, health and metrics."""
        self._actors.add(actor)
        self._asked.set()

    def follow(self, *, announced: bool) -> None:
        """Check soon for a configuration that another process may have applied, or has, when it was `announced`."""
        self._follows |= announced
        self._asked.set()

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Reload on request until cancelled."""
        task_status.started()
        if not self.is_applied:
            await self._apply_if_alone()
        while True:
            with anyio.move_on_after(RETRY_AFTER if self._actors else CHECK_EVERY):
                await self._asked.wait()
            self._asked = anyio.Event()
            async with keep_going("configuration.reload_failed"):
                await self._work()

    async def _work(self) -> None:
        for actor in sorted(self._actors):
            with suppress(ReloadRefused):  # it has been said
                await self.reload(actor)
            self._actors.discard(actor)
        async with self.database.reading() as connection:
            hash_ = await configuration_lock.applied_hash(connection)
        moved = hash_ not in {self._applied_hash, self.configuration.hash}
        self._applied_hash = hash_
        if self._follows or moved:
            self._follows = False
            with suppress(ReloadRefused):
                await self.reload("hint")

    async def _apply_if_alone(self) -> None:
        """Apply the configuration once no other process lives. A killed process seems alive until its lease ends."""
        until = anyio.current_time() + self.lease.total_seconds() * _SETTLING
        while anyio.current_time() < until and not self.is_applied:
            await sleep_for(self.lease.total_seconds() / 10)
            async with keep_going("configuration.reload_failed"), self._turn:
                async with self.database.transaction() as connection:
                    applied = await apply_at_start(connection, self.declare(self.configuration), force=False)
                if applied is not None:
                    submissions = self.prepare(self.configuration)
                    await self.adopt(self.configuration, ConfigurationChanges(), applied.asset_ids, submissions)
                    self.is_applied = True

    async def reload(self, actor: str) -> ReloadOutcome:
        """Read the file and apply it. Raises `ReloadRefused`, or what the database raises; then nothing has changed.

        The actor `hint` applies nothing. It adopts what another process applied, if its own file says the same.
        """
        async with self._turn:
            result: Result = "failed"
            read_as = self._read_as
            try:
                with anyio.CancelScope(shield=True):
                    outcome = await self._reload(actor)
                result = outcome.result
            except ReloadRefused as refused:
                result = "refused"
                self.health.reload_fault = str(refused)
                problems = [str(problem) for problem in refused.problems]
                log.error("configuration.refused", actor=actor, problems=problems)  # noqa: TRY400  expected: no traceback
                raise
            except BaseException:
                self._read_as = read_as  # the files are still to be applied, as their watch has to see
                raise
            finally:
                self.metrics.reloads.labels(result).inc()
        return outcome

    async def _reload(self, actor: str) -> ReloadOutcome:
        new = await self._read()
        changed = changes(self.configuration, new)
        if changed.settings:
            raise ReloadRefused([_problem(new, "settings", restart_sentence(changed.settings))])
        try:
            submissions = await anyio.to_thread.run_sync(self.prepare, new)
        except StartRefused as error:
            raise ReloadRefused([_problem(new, "", str(error))]) from error
        async with self.database.reading() as connection:
            hash_ = await configuration_lock.applied_hash(connection)
        self.health.reload_fault = None
        if hash_ == new.hash and (not changed or actor == "hint"):
            await self._take_over(new, changed, submissions)
            return _outcome("followed" if changed else "unchanged", new, changed, await self._applied(new.hash))
        if actor == "hint":
            log.warning("configuration.differs", applied=hash_, here=new.hash)
            return ReloadOutcome(result="unchanged", hash=self.configuration.hash, changes=ConfigurationChanges())
        applied = await self._apply(actor, new, changed)
        await self._adopt(new, changed, applied.asset_ids, submissions)
        self.announce(new.hash)
        detail = {"dequeued": applied.dequeued, "kept": applied.kept, **applied.counts, **changed.json}
        log.info("configuration.reloaded", actor=actor, hash=new.hash, **detail)
        return _outcome("applied", new, changed, detail)

    async def _read(self) -> Configuration:
        before = stamps(self.configuration.file, self._secrets)
        try:
            new = await anyio.to_thread.run_sync(self.load, self.configuration.file)
        except ConfigurationInvalid as error:
            if error.__cause__ is not None:
                log.exception("configuration.not_read")
            self._secrets |= error.secrets
            self._read_as = {**stamps(self.configuration.file, error.secrets), **before}
            raise ReloadRefused(error.problems) from error
        self._secrets, self._read_as = new.secrets, new.read_as
        return new

    async def _apply(self, actor: str, new: Configuration, changed: ConfigurationChanges) -> Applied:
        async def apply() -> Applied:
            async with self.database.transaction() as connection:
                applied = await catalog_sync.apply(connection, self.declare(new), self.database.dialect)
                detail = {
                    **changed.json,
                    "dequeued": applied.dequeued,
                    "kept": applied.kept,
                    **applied.counts,
                    "hash": new.hash,
                }
                await audit.record(connection, actor, audit.RELOADED, str(new.file), detail)
            return applied

        try:
            return await insist("configuration.apply_failed", apply, seconds=PATIENCE)
        except Conflict as error:
            raise ReloadRefused([_problem(new, "assets", str(error))]) from error

    async def _applied(self, hash_: str) -> Mapping[str, Any]:
        """Return what the audit says of the reload, or start, that applied this configuration, maybe a moment ago."""
        async with self.database.reading() as connection:
            entry = await audit.newest_of(connection, audit.OF_THE_CONFIGURATION)
        detail = {} if entry is None else json.loads(entry.detail)
        return detail if entry is not None and hash_ in {entry.target, detail.get("hash")} else {}

    async def _take_over(self, new: Configuration, changed: ConfigurationChanges, submissions: Submissions) -> None:
        """Adopt what was already applied, perhaps by another process."""
        if changed or not self.is_applied:
            async with self.database.reading() as connection:
                asset_ids = await assets.ids_by_name(connection)
            await self._adopt(new, changed, asset_ids, submissions)
            log.info("configuration.followed", hash=new.hash, **changed.json)

    async def _adopt(
        self, new: Configuration, changed: ConfigurationChanges, asset_ids: Mapping[str, int], submissions: Submissions
    ) -> None:
        await self.adopt(new, changed, defaultdict(int, asset_ids), submissions)
        self.configuration, self._applied_hash, self.is_applied = new, new.hash, True


def _outcome(
    result: Result, new: Configuration, changed: ConfigurationChanges, applied: Mapping[str, Any]
) -> ReloadOutcome:
    """Return the answer of a reload. `applied` is the audit's detail of the transaction that applied the configuration."""
    earlier = applied.get("earlier", {})  # events stored before a job was first seen
    watchers = applied.get("watchers", {})
    catching_up = {dag_id for dag_id, job in new.jobs.items() if job.catches_up}
    return ReloadOutcome(
        result=result,
        hash=new.hash,
        changes=changed,
        dequeued=applied.get("dequeued", 0),
        kept=applied.get("kept", {}),
        caught_up={dag_id: events for dag_id, events in earlier.items() if dag_id in catching_up},
        left_out={dag_id: events for dag_id, events in earlier.items() if dag_id not in catching_up},
        watchers=frozenset([*watchers.get("added", ()), *watchers.get("changed", ())]),
    )


def _problem(configuration: Configuration, path: str, message: str) -> Problem:
    return Problem(file=str(configuration.file), line=None, path=path, message=message)
