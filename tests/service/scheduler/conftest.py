from tests.service.triggerer.conftest import database

__all__ = ["database"]
