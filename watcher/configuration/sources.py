"""The sources of a configuration as the triggerer and commands reach them: here, or in processes of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias, cast

from config.models import Configuration, WatcherConfig
from config.vocabulary import UnimportedOptions
from watcher.configuration.vocabulary import TRIGGERS, connection_path, trigger_class, trigger_path
from watcher.triggerer.clients import (
    NO_ASSETS,
    Clients,
    ForeignTrigger,
    Hosted,
    ImportedTrigger,
    Isolation,
    TriggerHost,
    open_clients,
)
from watcher.triggerer.limits import BatchLimits

OpenIsolation: TypeAlias = Callable[[Configuration], AbstractAsyncContextManager[Isolation | None]]
"""Opens what runs triggers in processes of their own, as this configuration wants it; None: there is nothing that does."""


def hosted(configuration: Configuration, asset_ids: Mapping[str, int]) -> Mapping[str, Hosted]:
    """Return the configured watchers as the triggerer hosts them, by name."""
    limits = batch_limits(configuration)
    return {
        watcher.name: Hosted(
            name=watcher.name,
            asset=name,
            asset_id=asset_ids[name],
            trigger=_trigger(watcher, configuration),
            options=watcher.options,
            connection=watcher.connection,
            facts=watcher.facts,
            limits=limits,
            divides=watcher.trigger in TRIGGERS,
            definition=configuration.definitions[watcher.name],
            pause_after=watcher.pause_after_failures,
            manifests=watcher.manifests,
            further_assets={each: asset_ids[each] for each in watcher.facts.further_assets} or NO_ASSETS,
        )
        for name, asset in configuration.assets.items()
        for watcher in asset.watchers.values()
    }


def kept(before: Mapping[str, Hosted], after: Mapping[str, Hosted], changed: Collection[str]) -> Mapping[str, Hosted]:
    """Return `after`, with the objects of `before` wherever a watcher is equal and not `changed`, for example by its connection."""
    same = {name for name in after.keys() & before.keys() if after[name] == before[name]}
    return {name: before[name] if name in same and name not in changed else each for name, each in after.items()}


def _trigger(watcher: WatcherConfig, configuration: Configuration) -> TriggerHost:
    if watcher.isolation == "none":
        return ImportedTrigger(trigger_class(watcher.trigger))
    connection = None
    if watcher.connection is not None:
        given = configuration.given_connections[watcher.connection]
        connection = {"class": connection_path(given["type"]), "options": given}
    options = cast("UnimportedOptions", watcher.options)  # the vocabulary makes no others for a process of its own
    return ForeignTrigger(
        path=trigger_path(watcher.trigger),
        options=options.given,
        connection=connection,
        folder=configuration.folder,
        format=options.format,
    )


def batch_limits(configuration: Configuration) -> BatchLimits:
    batch = configuration.settings.triggerer.batch
    return BatchLimits(max_events=batch.max_events, max_bytes=batch.max_bytes)


@asynccontextmanager
async def open_sources(configuration: Configuration, open_isolation: OpenIsolation) -> AsyncIterator[Clients]:
    """Open the clients by which a command without a daemon reaches the sources."""
    async with (
        open_isolation(configuration) as isolation,
        open_clients(configuration.connections, isolation) as clients,
    ):
        yield clients
