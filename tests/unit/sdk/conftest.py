from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.conftest import database_file
from tests.unit.sdk.execution_server import ExecutionServer, running_execution_server
from tests.unit.sdk.places import BesideADaemon, InAFolder, Place

__all__ = ["database_file"]


@pytest.fixture
def daemon(database_file: Path) -> Iterator[ExecutionServer]:
    with running_execution_server(database_file) as server:
        yield server


@pytest.fixture(params=["daemon", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "daemon":
        return BesideADaemon(request.getfixturevalue("daemon"))
    return InAFolder(tmp_path)
