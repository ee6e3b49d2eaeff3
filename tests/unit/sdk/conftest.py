from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.sdk.execution_server import ExecutionServer, running_execution_server


@pytest.fixture
def daemon() -> Iterator[ExecutionServer]:
    with running_execution_server() as found:
        yield found
