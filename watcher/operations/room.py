"""Builds the room: the clean-up, and the watch for a restored backup."""

from __future__ import annotations

from dataclasses import dataclass

from store.base import BaseStoreBackend
from watcher.host.metadata import logs_directory
from watcher.host.room import Host
from watcher.operations.backup_watch import BackupWatch
from watcher.operations.cleanup import Cleaner, CleanupLimits


@dataclass(frozen=True, kw_only=True, eq=False)
class Operations:
    """The housekeeping of a process."""

    cleaner: Cleaner
    backups: BackupWatch


def build_operations(host: Host, backend: BaseStoreBackend) -> Operations:
    """Build both. `backend` keeps the entries whose time may be past."""
    logs = logs_directory(host.settings)
    return Operations(
        cleaner=Cleaner(host.database, backend, host.settings.home, logs, CleanupLimits.of(host.settings)),
        backups=BackupWatch(database=host.database, home=host.home, health=host.health),
    )
