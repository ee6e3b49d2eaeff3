"""What the database has to know of watchers with `clean_source`."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from config.models import Configuration
from config.models.assets import WatcherConfig
from store.catalog.catalog_sync import Applies
from store.features.clean_source import recording
from store.features.clean_source.recording import CleanedWatcher


def declare(configuration: Configuration) -> Applies:
    """Return what mirrors the watchers whose loaded files are removed. Others of the same triggers may have events of these files."""
    watchers = [watcher for configured in configuration.assets.values() for watcher in configured.watchers.values()]
    cleaned = {
        watcher.name: CleanedWatcher(after=after, assets=_assets(watcher))
        for watcher in watchers
        if (after := watcher.facts.cleaned_after) is not None
    }
    triggers = {watcher.trigger for watcher in watchers if watcher.name in cleaned}
    others = [watcher for watcher in watchers if watcher.trigger in triggers and watcher.name not in cleaned]
    more_assets = {asset for watcher in others for asset in _assets(watcher)}
    return partial(recording.apply, watchers=cleaned, more_assets=more_assets)


def _assets(watcher: WatcherConfig) -> Collection[str]:
    return {watcher.asset, *watcher.facts.further_assets}
