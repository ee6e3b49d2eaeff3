"""What features run in a process, and what they are built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from config.models.settings import Settings
from store.database import Database
from watcher.host.containment import Service
from watcher.host.room import Host
from watcher.installed import Installed


@dataclass(frozen=True, kw_only=True)
class ServiceContext:
    """What a service is built from."""

    host: Host
    installation: str
    """The id of the metadata database, by which other systems know it."""
    features: Installed
    """The features that have something to do in this process."""


ServiceBuilder: TypeAlias = Callable[[ServiceContext], Service]
"""Makes a service. It does no I/O and raises nothing: whatever may fail belongs into the service itself."""

StartCheck: TypeAlias = Callable[[Database, Settings, Mapping[str, str]], Awaitable[None]]
"""Checks something before a process starts, with its environment. Raises `StartRefused` with a sentence that names the remedy."""
