"""The assets whose events may name several versions of a file."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from config.models import Configuration
from store.catalog.catalog_sync import AppliedCatalog, AppliedFeature, Applies


def declare(configuration: Configuration) -> Applies:
    """Return what makes the feature interested in the events of watchers of files."""
    assets = {
        name
        for asset, configured in configuration.assets.items()
        for watcher in configured.watchers.values()
        if watcher.facts.names_versions
        for name in (asset, *watcher.facts.further_assets)
    }
    return partial(be_interested, assets=assets)


async def be_interested(
    _connection: AsyncConnection, applied: AppliedCatalog, assets: Collection[str]
) -> AppliedFeature:
    """Write nothing: what events name decides."""
    return AppliedFeature(interest=[applied.asset_ids[name] for name in assets])
