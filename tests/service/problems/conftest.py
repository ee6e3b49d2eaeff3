"""The application over a database with assets, a watcher and jobs."""

from tests.service.api.conftest import api

__all__ = ["api"]
