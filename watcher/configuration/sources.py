"""The sources of a configuration as the triggerer and commands reach them: here, or in processes of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from sqlalchemy import Table

from config.models import Configuration, WatcherConfig
from store.database import Database
from triggers.base import BaseEventTrigger
from watcher.configuration.vocabulary import TRIGGERS, connection_path, trigger_class, trigger_path
from watcher.triggerer.clients import NO_ASSETS, Clients, Hosted, open_clients
from watcher.triggerer.control import Control
from watcher.triggerer.isolation.batch_frames import BatchLimits
from watcher.triggerer.isolation.child_handle import ChildSettings
from watcher.triggerer.isolation.inquiries import ForeignOptions
from watcher.triggerer.isolation.trigger import ForeignTrigger


def hosted(configuration: Configuration, asset_ids: Mapping[str, int]) -> Mapping[str, Hosted]:
    """Return the configured watchers as the triggerer hosts them, by name."""
    limits = _limits(configuration)
    return {
        watcher.name: Hosted(
            name=watcher.name,
            asset=name,
            asset_id=asset_ids[name],
            trigger=_trigger(watcher, configuration),
            options=watcher.options,
            connection=watcher.connection,
            limits=limits,
            divides=watcher.trigger in TRIGGERS,
            definition=configuration.definitions[watcher.name],
            pause_after=watcher.pause_after_failures,
            manifests=watcher.manifests,
            further_assets={each: asset_ids[each] for each in watcher.further_assets} or NO_ASSETS,
        )
        for name, asset in configuration.assets.items()
        for watcher in asset.watchers.values()
    }


def kept(before: Mapping[str, Hosted], after: Mapping[str, Hosted], changed: Collection[str]) -> Mapping[str, Hosted]:
    """Return `after`, with the objects of `before` wherever a watcher is equal and not `changed`, for example by its connection."""
    same = {name for name in after.keys() & before.keys() if after[name] == before[name]}
    return {name: before[name] if name in same and name not in changed else each for name, each in after.items()}


def _trigger(watcher: WatcherConfig, configuration: Configuration) -> type[BaseEventTrigger[Any, Any]] | ForeignTrigger:
    if not isinstance(watcher.options, ForeignOptions):
        return trigger_class(watcher.trigger)
    connection = None
    if watcher.connection is not None:
        given = configuration.given_connections[watcher.connection]
        connection = {"class": connection_path(given["type"]), "options": given}
    return ForeignTrigger(
        path=trigger_path(watcher.trigger),
        options=watcher.options.given,
        connection=connection,
        folder=configuration.folder,
        format=watcher.options.format,
    )


def child_settings(configuration: Configuration) -> ChildSettings:
    """Return what each trigger in a process of its own may use."""
    settings = configuration.settings.triggerer
    return ChildSettings(
        memory_mb=settings.isolation.memory_mb,
        limits=_limits(configuration),
        plugins=configuration.settings.plugins_dir,
        log_level=configuration.settings.logs.level,
        poll_timeout=settings.poll_timeout,
    )


def _limits(configuration: Configuration) -> BatchLimits:
    batch = configuration.settings.triggerer.batch
    return BatchLimits(max_events=batch.max_events, max_bytes=batch.max_bytes)


def open_sources(configuration: Configuration) -> AbstractAsyncContextManager[Clients]:
    """Open the clients by which a command without a daemon reaches the sources."""
    return open_clients(configuration.connections, child_settings(configuration), configuration.environment)


def control(
    configuration: Configuration,
    asset_ids: Mapping[str, int],
    database: Database,
    clients: Clients,
    tables: Sequence[Table],
) -> Control:
    """Return what moves positions without a daemon. The next daemon notices, and makes the copies of watermarks."""
    return Control(
        database=database,
        hosted=hosted(configuration, asset_ids),
        clients=clients,
        tables=tables,
        poll_timeout=configuration.settings.triggerer.poll_timeout,
    )
