"""Backups of metadata databases, made and restored while no daemon runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.databases import migrate
from tests.servers import running_postgres

VACUUM = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', sys.argv[2:])"
"""What docs/operating.md says."""


@dataclass(frozen=True, kw_only=True)
class BackedUp:
    """A metadata database that can go back."""

    url: str | None
    """None: the file in the home."""
    back_up: Callable[[], None]
    restore: Callable[[], None]


@contextmanager
def backed_up(dialect: str, folder: Path) -> Iterator[BackedUp]:
    """Yield the database of a daemon whose home is `folder/home`."""
    if dialect == "sqlite":
        yield _file(folder / "home" / "watcher.db", folder / "backup.db")
        return
    with running_postgres() as server, server.database() as database:
        migrate(database.sqlalchemy_url)
        copy = f"{database.name}_copy"

        def moved(source: str, target: str) -> None:
            server.execute("CREATE DATABASE {} TEMPLATE {}", target, source)

        def restored() -> None:
            server.drop(database.name)
            moved(copy, database.name)

        yield BackedUp(url=database.sqlalchemy_url, back_up=lambda: moved(database.name, copy), restore=restored)
        server.drop(copy)


def _file(database: Path, copy: Path) -> BackedUp:
    def restored() -> None:
        for part in database.parent.glob("watcher.db*"):
            part.unlink()
        shutil.copy(copy, database)

    return BackedUp(
        url=None,
        back_up=lambda: subprocess.run([sys.executable, "-c", VACUUM, database, copy], check=True) and None,
        restore=restored,
    )
