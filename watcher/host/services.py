"""What features run in a process, and what they are built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from config.models.settings import Settings
from store.database import Database
from watcher.host.containment import Service
from watcher.host.room import Host


@dataclass(frozen=True, kw_only=True)
class ServiceContext:
    """What a service is built from: the process's host, and the id of the metadata database by which others know it."""

    host: Host
    installation: str


ServiceBuilder: TypeAlias = Callable[[ServiceContext], Service]
"""Makes a service. It does no I/O and raises nothing: whatever may fail belongs into the service itself."""

StartCheck: TypeAlias = Callable[[Database, Settings, Mapping[str, str]], Awaitable[None]]
"""Checks something before a process starts, with its environment. Raises `StartRefused` with a sentence that names the remedy."""
