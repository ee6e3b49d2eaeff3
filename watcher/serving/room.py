"""Builds the room: the context that the API's routes work with, from the configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

from store.detection.interest import EventHooks
from store.processes.triggerers import SigningKeys
from store.runs.tries.changed_items import ItemHooks
from store.state.attributed import AttributedEntries
from watcher.configuration.reload_outcome import ReloadOutcome
from watcher.configuration.vocabulary import Descriptions
from watcher.host.metadata import logs_directory
from watcher.host.room import Host
from watcher.installed import installed
from watcher.scheduling.planning.base import Planners
from watcher.scheduling.tries.submissions import Submissions
from watcher.serving.api.context import (
    ApiContext,
    JobSupport,
    Links,
    LiveAnswers,
    ProcessState,
    RequestLimits,
    SignIn,
    WatcherControl,
)
from watcher.serving.api.sign_in.recent_tokens import TRUSTED_FOR, KnownTokens
from watcher.serving.api.sign_in.same_site import site_of
from watcher.triggerer.control import Control


@dataclass(frozen=True, kw_only=True, eq=False)
class Serving:
    """The parts of a process's API that survive a reload. `context` makes what its routes work with."""

    host: Host
    entries: AttributedEntries
    secrets: Sequence[bytes]
    signing_keys: SigningKeys
    descriptions: Descriptions
    stopping: anyio.Event
    """Set when the process ends."""
    reload: Callable[[str], Awaitable[ReloadOutcome]]
    on_watermark: Callable[[int, str], None]
    planners: Planners
    hooks: EventHooks
    item_hooks: ItemHooks

    def context(self, configuration: str, *, control: Control, submissions: Submissions) -> ApiContext:
        """Return the context for the configuration with this hash: the first configuration, or one after a reload."""
        settings = self.host.settings
        worker_backend = settings.workers.state_store_backend
        return ApiContext(
            database=self.host.database,
            entries=self.entries,
            logs_directory=logs_directory(settings),
            hint=self.host.hints.give,
            hooks=self.hooks,
            item_hooks=self.item_hooks,
            sign_in=SignIn(
                secrets=self.secrets,
                auth=settings.api.auth,
                site=site_of(settings.api.hosts, settings.api.host, settings.api.base_url),
                signing_keys=self.signing_keys,
                known_tokens=KnownTokens(trusted_for=TRUSTED_FOR),
            ),
            limits=RequestLimits(
                max_value_storage_bytes=settings.store.max_value_storage_bytes,
                default_retention_days=settings.store.default_retention_days,
                event_retention_days=settings.store.event_retention_days,
                run_retention_days=settings.store.run_retention_days,
                body_bytes=settings.api.limits.body_bytes,
                execution_body_bytes=settings.api.limits.execution_body_bytes,
            ),
            home=settings.home,
            features=installed(settings.features),
            planners=self.planners,
            links=Links(
                base_url=settings.api.base_url,
                spark_history_url=settings.scheduler.spark_history_url,
                docs_url=settings.api.docs_url,
            ),
            live=LiveAnswers(stopping=self.stopping),
            process=ProcessState(
                configuration_hash=configuration,
                health=self.host.health,
                metrics=self.host.metrics,
                reload=self.reload,
            ),
            watchers=WatcherControl(control=control, descriptions=self.descriptions, on_watermark=self.on_watermark),
            jobs=JobSupport(
                clear_on_success=settings.store.clear_on_success,
                submitters=submissions.submitters,
                connection=submissions.connection,
                worker_backend=None
                if worker_backend is None
                else {"path": worker_backend, "options": settings.workers.options},
            ),
        )
