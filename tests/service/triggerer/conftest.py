from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from store.database import Database, migrations, sqlite_url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
async def database(request, tmp_path) -> AsyncIterator[Database]:
    """An empty metadata database of each kind."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path / "watcher.db")
    else:
        url = request.getfixturevalue("postgres_database").sqlalchemy_url
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        yield database
