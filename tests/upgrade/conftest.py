"""The fixtures for servers, which are those of the service tests."""

from tests.service.conftest import postgres_server as postgres_server  # noqa: PLC0414  a fixture
