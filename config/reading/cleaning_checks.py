"""Where watchers move files, checked against what the others watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel

from config.errors import KeyPath
from config.models.assets import AssetConfig, WatcherConfig


@runtime_checkable
class MovesFiles(Protocol):
    """Options of a watcher that may move its files."""

    def brings_back(self, other: BaseModel) -> bool:
        """Whether what this watcher moves would be new to a watcher with these other options, of the same server."""


def cleaning_faults(
    assets: Mapping[str, AssetConfig | None], connections: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the place and a sentence for each watcher whose moved files another watcher would find."""
    watchers = [watcher for asset in assets.values() if asset is not None for watcher in asset.watchers.values()]
    cleaned = [watcher for watcher in watchers if watcher.facts.cleaned_after is not None]
    movers = [(watcher, watcher.options) for watcher in cleaned if isinstance(watcher.options, MovesFiles)]
    for mover, options, other in ((*mover, other) for mover in movers for other in watchers if other is not mover[0]):
        if _server(mover, connections) == _server(other, connections) and options.brings_back(other.options):
            path = ("assets", mover.asset, "watchers", mover.name, "clean_source", "move_to")
            yield path, f"leads to where the watcher `{other.name}` finds it again; choose a place that nothing watches"


def _server(watcher: WatcherConfig, connections: Mapping[str, Any]) -> str | None:
    connection = None if watcher.connection is None else connections.get(watcher.connection)
    return getattr(connection, "endpoint_url", None)
