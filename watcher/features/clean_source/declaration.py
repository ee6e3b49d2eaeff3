"""What the database has to know of watchers with `clean_source`."""

from __future__ import annotations

from functools import partial

from config.models import Configuration
from store.catalog.catalog_sync import Applies
from store.features.clean_source import recording
from store.features.clean_source.recording import CleanedWatcher


def declare(configuration: Configuration) -> Applies:
    """Return what mirrors the watchers whose loaded files are removed."""
    watchers = {
        watcher.name: CleanedWatcher(after=after, assets={asset, *watcher.facts.further_assets})
        for asset, configured in configuration.assets.items()
        for watcher in configured.watchers.values()
        if (after := watcher.facts.cleaned_after) is not None
    }
    return partial(recording.apply, watchers=watchers)
