"""Builds the room: the clean-up, and the watches for a restored backup and for folders that cannot be written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.base import BaseStoreBackend
from store.processes.cleanup import Chore, KeptEvents
from watcher.host.metadata import logs_directory
from watcher.host.room import Host
from watcher.operations.backup_watch import BackupWatch
from watcher.operations.cleanup import Cleaner, CleanupLimits
from watcher.operations.event_looks import EventLooks
from watcher.operations.folder_watch import FolderWatch


@dataclass(frozen=True, kw_only=True, eq=False)
class Operations:
    """The housekeeping of a process."""

    cleaner: Cleaner
    backups: BackupWatch
    folders: FolderWatch


def build_operations(host: Host, backend: BaseStoreBackend, kept: KeptEvents, chores: Sequence[Chore]) -> Operations:
    """Build them. `backend` keeps the entries whose time may be past; `kept` and `chores` are the features'."""
    logs, limits = logs_directory(host.settings), CleanupLimits.of(host.settings)
    return Operations(
        cleaner=Cleaner(host.database, backend, host.settings.home, logs, limits, kept, chores),
        backups=BackupWatch(
            database=host.database,
            home=host.home,
            health=host.health,
            looks=EventLooks(file=host.home.folder / "event_looks.jsonl"),
        ),
        folders=FolderWatch(folders=_written(logs, host.home.folder), health=host.health),
    )


def _written(logs: Path, home: Path) -> Sequence[Path]:
    """Return the folders that this machine's daemon and its jobs must be able to write to, each disk once."""
    return [logs] if logs.is_relative_to(home) else [logs, home]
