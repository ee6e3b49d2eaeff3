"""The composition root: the only place that builds everything, and the one that starts and stops it in order."""

from __future__ import annotations

import os
import signal
import socket
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup, TaskStatus
from fastapi import FastAPI

from config.changes import Changes, settings_digests
from config.models import Configuration
from store.base import BaseStoreBackend
from store.database import Database
from store.processes.triggerers import ProcessInfo
from watcher.configuration.declarations import jobs_to_start, submitters, workspace
from watcher.configuration.file_watch import ConfigurationWatch
from watcher.configuration.reloader import Reloader, StartedWith, start_configuration
from watcher.configuration.sources import child_settings, hosted, kept
from watcher.configuration.vocabulary import Descriptions
from watcher.errors import PartEnded
from watcher.host import machine
from watcher.host.containment import Part, leaves, run_part
from watcher.host.health import Health, WatcherReport
from watcher.host.hint_relay import HintRelay
from watcher.host.home import Home, open_home
from watcher.host.leader_election import Leadership
from watcher.host.loops import Hint
from watcher.host.metadata import check_store, keep_unfrozen, logs_directory, open_backend, open_database, open_logs
from watcher.host.metrics import Metrics
from watcher.host.watchdog import Watchdog, force_shutdown
from watcher.operations.backup_watch import BackupWatch
from watcher.operations.cleanup import Cleaner, Limits
from watcher.outbound.airflow.neighbour import Neighbour
from watcher.outbound.alerts import Alerts, Evaluator
from watcher.outbound.outbox.sender import Sender
from watcher.scheduling import admission
from watcher.scheduling.dispatcher import Dispatcher
from watcher.scheduling.scheduler import Scheduler
from watcher.scheduling.submissions import Submissions
from watcher.serving import try_tokens
from watcher.serving.api.app import create_probes
from watcher.serving.api.context import ApiContext
from watcher.serving.api.sign_in.known_tokens import TRUSTED_FOR, KnownTokens
from watcher.serving.api.sign_in.same_site import site_of
from watcher.serving.http_server import address_of, listen_as, serve, url_of_api
from watcher.serving.signing import publish, signing_secrets
from watcher.serving.web import addresses, create_app
from watcher.submit.base import Addresses
from watcher.triggerer.clients import Clients
from watcher.triggerer.committing import Committer
from watcher.triggerer.control import Control
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.fork_server import ForkServer
from watcher.triggerer.isolation.inquiries import DESCRIBED_WITHIN, Inquirer
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer, take_over
from watcher.triggerer.watermark_copies import WatermarkCopies

ROLES: Final = frozenset({"triggerer", "scheduler", "api"})

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The words of `watcher run`."""

    roles: frozenset[str] = ROLES
    upgrade: bool = False
    apply: bool = False
    cancel_jobs: bool = False


async def run(configuration: Configuration, options: RunOptions, fork_server: ForkServer) -> None:
    """Serve until SIGTERM or SIGINT. `fork_server` was there before anything here holds locks or sockets or has threads.

    Raises `StartRefused`, a lock's error, what the database refuses, or `PartEnded` when a part ended by itself.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it means something once there is something to reload
    async with AsyncExitStack() as stack:
        daemon = await _build(stack, configuration, options, fork_server)
        try:
            await daemon.serve()
        except BaseExceptionGroup as group:
            if (ended := group.subgroup(PartEnded)) is not None:
                raise leaves(ended)[0] from None
            raise


async def _build(
    stack: AsyncExitStack, configuration: Configuration, options: RunOptions, fork_server: ForkServer
) -> Daemon:
    settings = configuration.settings
    home = stack.enter_context(open_home(settings.home))
    process = ProcessInfo(id=str(uuid.uuid4()), host=socket.gethostname(), pid=os.getpid())
    stack.enter_context(open_logs(settings, process.id))
    check_store(settings)
    database = await stack.enter_async_context(open_database(settings, upgrade=options.upgrade))
    await take_over(home, database, process.id)
    backend = open_backend(settings, database)
    start = await start_configuration(database, configuration, force=options.apply)
    home.remember_settings(settings_digests(settings))
    listening_socket = stack.enter_context(listen_as(settings.api, options.roles))
    home.remember_address(address_of(listening_socket))
    return Daemon(configuration, options, home, process, database, backend, start, listening_socket, fork_server)


@dataclass(eq=False, repr=False)
class Daemon:
    """Everything that runs, wired together. `serve` is its whole life."""

    configuration: Configuration
    options: RunOptions
    home: Home
    process: ProcessInfo
    database: Database
    backend: BaseStoreBackend
    start: StartedWith
    listening_socket: socket.socket
    fork_server: ForkServer

    def __post_init__(self) -> None:
        settings = self._settings = self.configuration.settings
        self._entries = self.backend.entries(self.database)
        self._copies = None if self._entries.keeps_history else WatermarkCopies(self.database, self._entries)
        self._secrets = signing_secrets(self._settings.api, self.home, alone=self.options.roles == ROLES)
        self._metrics = Metrics()
        self._metrics.expect_runs(self.configuration.jobs)
        self._watchdog = Watchdog(
            grace=self._settings.triggerer.grace,
            metrics=self._metrics,
            on_hangup=lambda: self._reloader.request("SIGHUP"),
        )
        self._health = Health(
            recent_block=lambda: self._watchdog.recent_block, waits_for="not everything has started yet; wait"
        )
        self._leadership = Leadership(
            database=self.database,
            owner=self.home.id,
            heartbeat=settings.triggerer.heartbeat,
            lease=settings.triggerer.lease,
            on_taken=self._look_for_runs,
            health=self._health,
        )
        self._scheduler = Scheduler(self.database, self._leadership, on_runs=lambda: self._deliver(Hint(what="tries")))
        of_leader: dict[str, Any] = {"database": self.database, "leadership": self._leadership, "health": self._health}
        airflow, instance = self._settings.airflow, self.start.instance
        self._neighbour = Neighbour(settings=airflow, instance=instance, hint=self._hint, **of_leader)
        destinations = [*self._neighbour.destinations, Alerts.of(self._settings.alerts, self._metrics)]
        self._sender = Sender(destinations=destinations, **of_leader)
        self._submitters = submitters(self.configuration, workspace(self.configuration, self.home.folder))
        self._dispatcher = self._make_dispatcher()
        self._hosted = hosted(self.configuration, self.start.asset_ids)
        self._clients: Clients | None = None
        self._triggerer: Triggerer | None = None
        self._api: FastAPI | None = None
        self._reloader = self._make_reloader()
        self._relay = HintRelay(database=self.database, process_id=self.process.id, deliver=self._deliver)
        self._inquirer = Inquirer(self.fork_server, patience=DESCRIBED_WITHIN)
        self._inquirer.prepare(self._settings.plugins_dir, self.configuration.environment)
        self._stopping = anyio.Event()

    async def serve(self) -> None:
        """Start every role, wait for a signal, stop in order: watchers and jobs first, then the API they may still call."""
        self._signing_keys = await publish(self.database, self._secrets, self.process)
        with self._inquirer, self._watchdog.watching() as signals:
            async with anyio.create_task_group() as tasks:
                children = Children(self.fork_server, tasks, child_settings(self.configuration))
                clients = self._clients = Clients(self.configuration.connections, tasks, children)
                await self._start_part(tasks, "exchange of hints", self._relay.run)
                await self._start_part(tasks, "end of frozen sessions", keep_unfrozen, self.database)
                create = create_app if "api" in self.options.roles else create_probes
                self._api = create(self._api_context(clients))
                await self._start_part(tasks, "API", serve, self._api, self.listening_socket, self._settings.api)
                async with anyio.create_task_group() as workers:
                    await self._start_workers(workers, clients)
                    await self._start_part(workers, "reloads", self._reloader.run)
                    await self._start_part(workers, "configuration", ConfigurationWatch(self._reloader).run)
                    self._health.waits_for = None
                    machine.keep_what_is_there()
                    url = address_of(self.listening_socket)
                    log.info("daemon.started", roles=sorted(self.options.roles), pid=self.process.pid, url=url)
                    await signals.receive()
                    self._health.waits_for = "this process is being stopped; ask another one"
                    self._stopping.set()
                    log.info("daemon.stopping", grace=self._settings.triggerer.grace.total_seconds())
                    tasks.start_soon(force_shutdown, signals, workers)
                    if self.options.cancel_jobs or self._settings.scheduler.cancel_jobs:
                        await self._dispatcher.cancel_all()
                    workers.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        log.info("daemon.stopped")

    async def _start_workers(self, workers: TaskGroup, clients: Clients) -> None:
        backups = BackupWatch(database=self.database, home=self.home, health=self._health)
        await self._start_part(workers, "watch on restored backups", backups.run)
        if self._copies is not None:
            await self._start_part(workers, "copying of watermarks", self._copies.run)
        if "scheduler" in self.options.roles:
            await self._start_part(workers, "leader election", self._leadership.run)
            await self._start_part(workers, "scheduler", self._scheduler.run)
            logs, limits = logs_directory(self._settings), Limits.of(self._settings)
            cleaner = Cleaner(self.database, self.backend, self._settings.home, logs, limits)
            await self._start_part(workers, "clean-up", cleaner.run, self._settings.store.cleanup_interval)
            evaluator = Evaluator.of(
                self._settings,
                self.database,
                self._leadership,
                page_of=addresses.of_subject,
                on_alerts=self._sender.wake,
            )
            await self._start_part(workers, "dispatcher", self._dispatcher.run)
            await self._start_part(workers, "outbox", self._sender.run)
            await self._start_part(workers, "Airflow", self._neighbour.run)
            await self._start_part(workers, "alerts", evaluator.run)
        if "triggerer" in self.options.roles:
            self._triggerer = self._make_triggerer(clients)
            await self._start_part(workers, "triggerer", self._triggerer.run)

    async def _start_part(self, tasks: TaskGroup, name: str, run: Part, *arguments: object) -> None:
        async def part(*, task_status: TaskStatus[None]) -> None:
            try:
                await run_part(name, run, *arguments, task_status=task_status)
            except PartEnded:
                log.exception("daemon.part_ended", part=name)
                self._health.end(name)
                self._watchdog.end_within_grace()
                raise

        await tasks.start(part, name=name)

    def _hint(self, hint: Hint) -> None:
        """Wake who has something to do after a commit, in this process and in others; queues and outbox are the leader's."""
        self._deliver(hint)
        if hint.what not in {"queues", "outbox"} or not self._leadership.leads:
            self._relay.send(hint)

    def _deliver(self, hint: Hint) -> None:
        if self._api is not None:
            self._api.state.context.changes.wake()
        match hint.what:
            case "queues":
                self._scheduler.wakeup.set(hint.names)
            case "tries":
                self._dispatcher.wakeup.set(hint.names)
            case "watchers" if self._triggerer is not None:
                self._triggerer.wakeup.set(hint.names)
            case "outbox":
                self._sender.wake()
            case "configuration":
                self._reloader.follow(announced=bool(hint.names))
                if self._triggerer is not None:
                    self._triggerer.wakeup.set()

    def _look_for_runs(self) -> None:
        for what in ("queues", "tries", "outbox"):
            self._deliver(Hint(what=what))

    def _after_try(self) -> None:
        """The leader looks what may start instead."""
        self._look_for_runs()
        if not self._leadership.leads:
            self._relay.send(Hint(what="queues"))
            self._relay.send(Hint(what="tries"))

    def _owe_copy(self, asset_id: int, key: str) -> None:
        if self._copies is not None:
            self._copies.mark_dirty(asset_id, key)

    def _make_triggerer(self, clients: Clients) -> Triggerer:
        settings = self._settings.triggerer
        committer = Committer(
            database=self.database,
            metrics=self._metrics,
            on_events=lambda dag_ids: self._hint(Hint(what="queues", names=dag_ids)),
            on_watermark=self._owe_copy,
            on_outbox=lambda: self._hint(Hint(what="outbox")),
        )
        return Triggerer(
            database=self.database,
            process=self.process,
            hosted=self._hosted,
            configuration=self.configuration.hash,
            supervise=lambda hosted: Supervisor(
                hosted=hosted,
                owner=self.process.id,
                database=self.database,
                committer=committer,
                clients=clients,
                poll_timeout=settings.poll_timeout,
                report=WatcherReport(starts_now=hosted.starts_now),
            ),
            heartbeat=settings.heartbeat,
            lease=settings.lease,
            capacity=settings.capacity,
            on_release=lambda names: self._relay.send(Hint(what="watchers", names=names)),
            health=self._health,
        )

    def _make_dispatcher(self) -> Dispatcher:
        api_here = url_of_api(self._settings.api, self.options.roles, self.listening_socket)
        submissions = Submissions(
            jobs=jobs_to_start(self.configuration),
            submitters=self._submitters,
            addresses=Addresses(local=api_here, public=self._settings.api.base_url),
            issue_token=try_tokens.issuer(self._secrets[0]),
        )
        own = self._settings.scheduler
        return Dispatcher(
            self.database,
            submissions,
            self._leadership,
            replace(self.process, id=self.home.id),
            limits=admission.Limits.of(machine.memory_mb(), own.parallelism, own.memory_mb, own.warm_memory_mb),
            lease=self._settings.triggerer.lease,
            on_end=self._after_try,
            configuration=self.configuration.hash,
            health=self._health,
            metrics=self._metrics,
        )

    def _make_reloader(self) -> Reloader:
        return Reloader(
            configuration=self.configuration,
            database=self.database,
            lease=self._settings.triggerer.lease,
            prepare=self._prepare,
            adopt=self._adopt,
            announce=lambda hash_: self._relay.send(Hint(what="configuration", names=frozenset({hash_}))),
            health=self._health,
            metrics=self._metrics,
            is_applied=self.start.is_applied,
        )

    def _prepare(self, configuration: Configuration) -> Submissions:
        """A submitter that is there stays: tries that it started may need it. Raises `StartRefused`."""
        new = submitters(configuration, workspace(configuration, self.home.folder))
        before = self._dispatcher.submissions
        return replace(before, jobs=jobs_to_start(configuration), submitters={**new, **before.submitters})

    async def _adopt(
        self, new: Configuration, changed: Changes, asset_ids: Mapping[str, int], submissions: Submissions
    ) -> None:
        """What has not changed stays the same object, and whoever works with it never notices."""
        await anyio.to_thread.run_sync(self._inquirer.prepare, self._settings.plugins_dir, new.environment)
        self.configuration = new
        self._hosted = kept(self._hosted, hosted(new, asset_ids), changed.watchers.changed)
        self._submitters = submissions.submitters
        self._metrics.expect_runs(new.jobs)
        self._dispatcher.adopt(submissions, new.hash)
        if self._clients is not None:
            self._clients.replace(new.connections, changed.connections.changed | changed.connections.removed)
            if self._api is not None:
                self._api.state.context = self._api.state.context.followed_by(self._api_context(self._clients))
        if self._triggerer is not None:
            self._triggerer.adopt(self._hosted, new.hash)
        self._look_for_runs()

    def _api_context(self, clients: Clients) -> ApiContext:
        settings = self._settings
        path = settings.workers.state_store_backend
        worker_backend = None if path is None else {"path": path, "options": settings.workers.options}
        return ApiContext(
            database=self.database,
            entries=self._entries,
            secrets=self._secrets,
            auth=settings.api.auth,
            site=site_of(settings.api.hosts, settings.api.host, settings.api.base_url),
            body_bytes=settings.api.limits.body_bytes,
            execution_body_bytes=settings.api.limits.execution_body_bytes,
            base_url=settings.api.base_url,
            logs_directory=logs_directory(settings),
            max_value_storage_bytes=settings.store.max_value_storage_bytes,
            default_retention_days=settings.store.default_retention_days,
            clear_on_success=settings.store.clear_on_success,
            worker_backend=worker_backend,
            hint=self._hint,
            configuration_hash=self.configuration.hash,
            spark_history_url=settings.scheduler.spark_history_url,
            signing_keys=self._signing_keys,
            known_tokens=KnownTokens(trusted_for=TRUSTED_FOR),
            health=self._health,
            control=Control(
                database=self.database,
                hosted=self._hosted,
                clients=clients,
                poll_timeout=settings.triggerer.poll_timeout,
                hint=self._hint,
                on_watermark=self._owe_copy,
            ),
            reload=self._reloader.reload,
            on_watermark=self._owe_copy,
            submitters=self._submitters,
            stopping=self._stopping,
            metrics=self._metrics,
            descriptions=Descriptions(self._inquirer),
        )
