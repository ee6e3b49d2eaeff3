"""One fork server for all tests of isolation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watcher.features.isolation.fork_server import ForkServer


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server
