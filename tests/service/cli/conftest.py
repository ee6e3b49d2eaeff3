"""Commands run in this process; what each of them would make anew is made once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import copied
from tests.service.api.application import application
from watcher.cli import connections


@pytest.fixture(autouse=True)
def _made_before(tmp_path: Path, database_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema in the database of the configuration's home, and the application's routes."""
    home = tmp_path / ".watcher"
    home.mkdir(mode=0o700)
    copied(database_file, home)
    monkeypatch.setattr(connections, "create_app", application)
