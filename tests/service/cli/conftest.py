"""Commands run in this process. What each of them would make again is made once for all tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import typer.testing
from typer.main import get_command

from tests.databases import copied
from tests.service.api.application import application
from watcher.cli import connections

_built = cache(get_command)


@pytest.fixture(autouse=True)
def _made_before(tmp_path: Path, database_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the schema of the home's database, the application's routes and the commands' options once."""
    home = tmp_path / ".watcher"
    home.mkdir(mode=0o700)
    copied(database_file, home)
    monkeypatch.setattr(connections, "create_app", application)
    monkeypatch.setattr(typer.testing, "_get_command", _built)
