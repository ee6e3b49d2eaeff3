"""Builds the room: the clean-up, and the watch for a restored backup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from store.base import BaseStoreBackend
from store.processes.cleanup import Chore, KeptEvents
from watcher.host.metadata import logs_directory
from watcher.host.room import Host
from watcher.operations.backup_watch import BackupWatch
from watcher.operations.cleanup import Cleaner, CleanupLimits


@dataclass(frozen=True, kw_only=True, eq=False)
class Operations:
    """The housekeeping of a process."""

    cleaner: Cleaner
    backups: BackupWatch


def build_operations(host: Host, backend: BaseStoreBackend, kept: KeptEvents, chores: Sequence[Chore]) -> Operations:
    """Build both. `backend` keeps the entries whose time may be past; `kept` and `chores` are the features'."""
    logs, limits = logs_directory(host.settings), CleanupLimits.of(host.settings)
    return Operations(
        cleaner=Cleaner(host.database, backend, host.settings.home, logs, limits, kept, chores),
        backups=BackupWatch(database=host.database, home=host.home, health=host.health),
    )
