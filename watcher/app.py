"""The composition root: the only place that builds every room, and the one that starts and stops them in order."""

from __future__ import annotations

import os
import signal
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup, TaskStatus
from fastapi import FastAPI

from config.models import Configuration
from config.models.changes import ConfigurationChanges, settings_digests
from store.base import BaseStoreBackend
from store.catalog.catalog_sync import Declared
from store.processes.triggerers import ProcessInfo
from watcher import assembly
from watcher.configuration.declarations import declared, jobs_to_start, planners, steps, submitters, workspace
from watcher.configuration.file_watch import ConfigurationWatch
from watcher.configuration.foreign_classes import DESCRIBED_WITHIN, ForeignProcesses, load_with_plugins
from watcher.configuration.reloader import Reloader, StartedWith, start_configuration
from watcher.configuration.services import ServiceBuilder, ServiceContext, StartCheck, contained
from watcher.configuration.sources import hosted, kept
from watcher.configuration.vocabulary import Descriptions, ForeignClasses
from watcher.errors import ServiceEnded
from watcher.feature import Path
from watcher.host import machine
from watcher.host.containment import Service, leaves, run_service
from watcher.host.home import open_home
from watcher.host.loops import Hint
from watcher.host.metadata import check_store, keep_unfrozen, open_backend, open_database, open_logs
from watcher.host.room import Host, build_host
from watcher.host.watchdog import force_shutdown
from watcher.installed import Installed, installed, naming, resolve
from watcher.operations.room import build_operations
from watcher.scheduling.room import build_scheduling
from watcher.scheduling.tries.submissions import Submissions
from watcher.scheduling.tries.try_records import StoredTries
from watcher.serving import try_tokens
from watcher.serving.api.app import create_app, create_probes, routers_of
from watcher.serving.api.context import ApiContext
from watcher.serving.http_server import address_of, listen_as, serve, url_of_api
from watcher.serving.room import Serving
from watcher.serving.sign_in_links import show_link
from watcher.submit.base import Addresses, Submitter
from watcher.triggerer.clients import Clients
from watcher.triggerer.room import build_control, build_triggerer, take_over
from watcher.triggerer.triggerer import Triggerer
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


async def run(configuration: Configuration, options: RunOptions, processes: ForeignProcesses) -> None:
    """Serve until SIGTERM or SIGINT. `processes` was opened before anything here holds locks or sockets or has threads.

    Raises `StartRefused`, a lock's error, what the database refuses, or `ServiceEnded` when a part ended by itself.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it means something once there is something to reload
    async with AsyncExitStack() as stack:
        daemon = await _build(stack, configuration, options, processes)
        try:
            await daemon.serve()
        except BaseExceptionGroup as group:
            if (ended := group.subgroup(ServiceEnded)) is not None:
                raise leaves(ended)[0] from None
            raise


async def _build(
    stack: AsyncExitStack, configuration: Configuration, options: RunOptions, processes: ForeignProcesses
) -> DaemonRooms:
    settings, features = configuration.settings, installed(configuration.settings.features)
    routers_of(features)  # refuses a route that anybody may call, before anything is there
    home = stack.enter_context(open_home(settings.home))
    process = ProcessInfo(id=str(uuid.uuid4()), host=socket.gethostname(), pid=os.getpid())
    stack.enter_context(open_logs(settings, process.id))
    check_store(settings)
    database = await stack.enter_async_context(
        open_database(settings, assembly.feature_tables(features), upgrade=options.upgrade)
    )
    await take_over(home, database, process.id)
    backend = open_backend(settings, database)
    declare = partial(declared, features=assembly.declarations(features.features))
    start = await start_configuration(database, declare(configuration), force=options.apply)
    checks: Mapping[str, StartCheck] = features.configured(settings).resolved("start_check")
    for name, start_check in checks.items():
        with naming(name):
            await start_check(database, settings, os.environ)
    home.remember_settings(settings_digests(settings))
    listening_socket = stack.enter_context(listen_as(settings.api, options.roles))
    home.remember_address(address_of(listening_socket))
    host = build_host(
        settings=settings,
        home=home,
        process=process,
        database=database,
        on_hangup=lambda: daemon.request_reload("SIGHUP"),
    )
    classes = stack.enter_context(processes.classes(DESCRIBED_WITHIN))
    await _hide(classes, configuration)
    daemon = DaemonRooms(
        host, configuration, options, backend, start, listening_socket, processes, classes, features, declare
    )
    return daemon


async def _hide(classes: ForeignClasses | None, configuration: Configuration) -> None:
    """Hide the configuration's secrets from classes of third parties, which are looked for where it says."""
    if classes is not None:
        plugins, hidden = configuration.settings.plugins_dir, configuration.environment
        await anyio.to_thread.run_sync(classes.prepare, plugins, hidden)


def _built(path: Path, context: ServiceContext) -> Service:
    build: ServiceBuilder = resolve(path)
    return build(context)


@dataclass(eq=False, repr=False)
class DaemonRooms:
    """A process's rooms, wired together. `serve` is its whole life."""

    host: Host
    configuration: Configuration
    options: RunOptions
    backend: BaseStoreBackend
    start: StartedWith
    listening_socket: socket.socket
    processes: ForeignProcesses
    classes: ForeignClasses | None
    features: Installed
    declare: Callable[[Configuration], Declared]

    def __post_init__(self) -> None:
        host, settings = self.host, self.host.settings
        self._entries = self.backend.entries(host.database)
        self._copies = None if self._entries.keeps_history else WatermarkCopies(host.database, self._entries)
        self._on_watermark: Callable[[int, str], None] = lambda _asset_id, _key: None
        if self._copies is not None:
            self._on_watermark = self._copies.mark_dirty
        self._hooks = assembly.event_hooks(self.features.features)
        self._item_hooks = assembly.item_hooks(self.features.features)
        self._secrets = try_tokens.signing_secrets(settings.api, host.home, alone=self.options.roles == ROLES)
        host.metrics.expect_runs(self.configuration.jobs)
        self._hosted = hosted(self.configuration, self.start.asset_ids)
        self._submissions = self._first_submissions()
        self._planners = planners()
        self._scheduling = build_scheduling(
            host,
            self._submissions,
            self._hooks,
            configuration=self.configuration.hash,
            steps=steps(),
            planners=self._planners,
            item_hooks=self._item_hooks,
        )
        self._services = self._services_of_features()
        host.health.concerns |= {f"feature {name}": why for name, why in self.features.unavailable.items()}
        self._reloader = self._make_reloader()
        self._stopping = anyio.Event()
        self._clients: Clients | None = None
        self._serving: Serving | None = None
        self._api: FastAPI | None = None
        self._triggerer: Triggerer | None = None

    def request_reload(self, actor: str) -> None:
        """Read the configuration again soon. The actor stands in the audit."""
        self._reloader.request(actor)

    async def serve(self) -> None:
        """Start every role, wait for a signal, stop in order: watchers and jobs first, then the API they may still call."""
        host, settings = self.host, self.host.settings
        signing_keys = await try_tokens.publish_keys(host.database, self._secrets, host.process)
        with host.watchdog.watching() as signals:
            async with anyio.create_task_group() as tasks:
                isolation = self.processes.isolation(self.configuration, tasks)
                clients = self._clients = Clients(self.configuration.connections, tasks, isolation, self.start.instance)
                await self._start_service(tasks, "exchange of hints", host.hints.relay.run)
                await self._start_service(tasks, "end of frozen sessions", keep_unfrozen, host.database)
                self._serving = Serving(
                    host=host,
                    entries=self._entries,
                    secrets=self._secrets,
                    signing_keys=signing_keys,
                    descriptions=Descriptions(self.classes),
                    stopping=self._stopping,
                    reload=self._reloader.reload,
                    on_watermark=self._on_watermark,
                    planners=self._planners,
                    hooks=self._hooks,
                    item_hooks=self._item_hooks,
                )
                api = self._api = self._make_api(self._serving, clients)
                await self._start_service(tasks, "API", serve, api, self.listening_socket, settings.api)
                async with anyio.create_task_group() as workers:
                    await self._start_workers(workers, clients)
                    await self._start_service(workers, "reloads", self._reloader.run)
                    await self._start_service(workers, "configuration", ConfigurationWatch(self._reloader).run)
                    host.health.starts_since = None
                    host.home.remember_start()
                    machine.keep_what_is_there()
                    url = address_of(self.listening_socket)
                    log.info("daemon.started", roles=sorted(self.options.roles), pid=host.process.pid, url=url)
                    await show_link(host.database, settings, url)
                    await signals.receive()
                    host.health.waits_for = "this process is being stopped; ask another one"
                    self._stopping.set()
                    log.info("daemon.stopping", grace=settings.triggerer.grace.total_seconds())
                    tasks.start_soon(force_shutdown, signals, workers)
                    if self.options.cancel_jobs or settings.scheduler.cancel_jobs:
                        await self._scheduling.dispatcher.cancel_all()
                    workers.cancel_scope.cancel()
                tasks.cancel_scope.cancel()
        log.info("daemon.stopped")

    async def _start_workers(self, workers: TaskGroup, clients: Clients) -> None:
        features = self.features.features
        operations = build_operations(
            self.host, self.backend, assembly.kept_events(features), assembly.chores(features)
        )
        await self._start_service(workers, "watch on restored backups", operations.backups.run)
        await self._start_service(workers, "watch on folders", operations.folders.run)
        if self._copies is not None:
            await self._start_service(workers, "copying of watermarks", self._copies.run)
        if "scheduler" in self.options.roles:
            interval = self.host.settings.store.cleanup_interval
            await self._start_service(workers, "leader election", self.host.leadership.run)
            await self._start_service(workers, "scheduler", self._scheduling.scheduler.run)
            await self._start_service(workers, "clean-up", operations.cleaner.run, interval)
            await self._start_service(workers, "dispatcher", self._scheduling.dispatcher.run)
        if "triggerer" in self.options.roles:
            self._triggerer = build_triggerer(
                self.host,
                hosted=self._hosted,
                configuration=self.configuration.hash,
                clients=clients,
                hooks=self._hooks,
                on_watermark=self._on_watermark,
            )
            await self._start_service(workers, "triggerer", self._triggerer.run)
        for name, run in self._services.items():
            await self._start_service(workers, name, run)

    def _services_of_features(self) -> Mapping[str, Service]:
        """Build the services that this process runs for features, in the order of the list, each by its name."""
        used = self.features.configured(self.host.settings)
        context = ServiceContext(
            host=self.host,
            installation=self.start.instance,
            features=used,
            planners=self._planners,
            hooks=self._hooks,
            hosted=lambda: self._hosted,
        )
        scopes = {"process", *self.options.roles}
        services: dict[str, Service] = {}
        for feature in used.features:
            for service in (each for each in feature.services if each.scope in scopes):
                build = partial(_built, service.build, context)
                if used.is_built_in(feature):
                    services[service.name] = build()
                else:
                    name = f"the service {service.name} of the feature {feature.name}"
                    services[name] = contained(name, build, self.host.health)
        return services

    async def _start_service(self, tasks: TaskGroup, name: str, run: Service, *arguments: object) -> None:
        async def service(*, task_status: TaskStatus[None]) -> None:
            try:
                await run_service(name, run, *arguments, task_status=task_status)
            except ServiceEnded:
                log.exception("daemon.part_ended", part=name)
                self.host.health.end(name)
                self.host.watchdog.end_within_grace()
                raise

        await tasks.start(service, name=name)

    def _make_api(self, serving: Serving, clients: Clients) -> FastAPI:
        create = create_app if "api" in self.options.roles else create_probes
        context = self._api_context(serving, clients)
        api = create(context, context.features)
        self.host.hints.watch(api.state.context.live.changes.wake)  # the same object after every reload
        return api

    def _api_context(self, serving: Serving, clients: Clients) -> ApiContext:
        control = build_control(
            self.host,
            hosted=self._hosted,
            clients=clients,
            tables=assembly.tables(self.features.features),
            on_watermark=self._on_watermark,
            count_cleaned=assembly.count_cleaned(self.features.features),
        )
        return serving.context(self.configuration.hash, control=control, submissions=self._submissions)

    def _first_submissions(self) -> Submissions:
        settings = self.host.settings
        api_here = url_of_api(settings.api, self.options.roles, self.listening_socket)
        return Submissions(
            jobs=jobs_to_start(self.configuration),
            submitters=self._submitters(self.configuration),
            addresses=Addresses(local=api_here, public=settings.api.base_url),
            issue_token=try_tokens.issuer(self._secrets[0]),
        )

    def _submitters(self, configuration: Configuration) -> Mapping[str, Submitter]:
        home = self.host.home
        tries = StoredTries(database=self.host.database, home_id=home.id)
        lent = workspace(configuration, home.folder, installation=self.start.instance, tries=tries)
        return submitters(configuration, lent)

    def _make_reloader(self) -> Reloader:
        hints = self.host.hints
        reloader = Reloader(
            configuration=self.configuration,
            database=self.host.database,
            lease=self.host.settings.triggerer.lease,
            load=load_with_plugins,
            declare=self.declare,
            prepare=self._prepare,
            adopt=self._adopt,
            announce=lambda hash_: hints.relay.send(Hint(what="configuration", names=frozenset({hash_}))),
            health=self.host.health,
            metrics=self.host.metrics,
            is_applied=self.start.is_applied,
        )
        hints.listen("configuration", lambda hashes: reloader.follow(announced=bool(hashes)))
        return reloader

    def _prepare(self, configuration: Configuration) -> Submissions:
        """Make what tries are started with. A submitter that exists stays: its tries may need it. Raises `StartRefused`."""
        before, new = self._submissions, self._submitters(configuration)
        return replace(before, jobs=jobs_to_start(configuration), submitters={**new, **before.submitters})

    async def _adopt(
        self, new: Configuration, changed: ConfigurationChanges, asset_ids: Mapping[str, int], submissions: Submissions
    ) -> None:
        """Give every room the new configuration. What has not changed stays the same object, so its users notice nothing."""
        host = self.host
        await _hide(self.classes, new)
        self.configuration, self._submissions = new, submissions
        self._hosted = kept(self._hosted, hosted(new, asset_ids), changed.watchers.changed)
        host.metrics.expect_runs(new.jobs)
        self._scheduling.dispatcher.adopt(submissions, new.hash)
        if self._clients is not None:
            self._clients.replace(new.connections, changed.connections.changed | changed.connections.removed)
            if self._api is not None and self._serving is not None:
                context = self._api_context(self._serving, self._clients)
                self._api.state.context = self._api.state.context.followed_by(context)
        if self._triggerer is not None:
            self._triggerer.adopt(self._hosted, new.hash)
        host.hints.look_for_runs()
