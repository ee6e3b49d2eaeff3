"""Where watchers move files, checked against what the others watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from config.errors import KeyPath
from config.models.assets import AssetConfig, WatcherConfig


def cleaning_faults(
    assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place and a sentence for each watcher whose moved files another watcher would find."""
    watchers = [watcher for asset in assets.values() if asset is not None for watcher in asset.watchers.values()]
    movers = [watcher for watcher in watchers if getattr(watcher.options, "clean_source", None) is not None]
    for mover, other in ((mover, other) for mover in movers for other in watchers if other is not mover):
        brings_back: Callable[[BaseModel], bool] = getattr(mover.options, "brings_back", lambda _options: False)
        if _server(mover, connections) == _server(other, connections) and brings_back(other.options):
            path = ("assets", mover.asset, "watchers", mover.name, "clean_source", "move_to")
            yield path, f"leads to where the watcher `{other.name}` finds it again; choose a place that nothing watches"


def _server(watcher: WatcherConfig, connections: Mapping[str, Any]) -> str | None:
    connection = None if watcher.connection is None else connections.get(watcher.connection)
    return getattr(connection, "endpoint_url", None)
