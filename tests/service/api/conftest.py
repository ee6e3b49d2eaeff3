"""The application's context over a fresh metadata database, with its logs in files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.catalog import catalog_sync
from store.database import Database
from tests.service.api.application import CONFIGURED, Api, adapted, make_context, serving
from watcher.host import logs
from watcher.host.loops import Hint


@pytest.fixture
async def api(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """An application without tokens, where everybody may do everything."""
    async with database.transaction() as session:
        applied = await catalog_sync.apply(session, CONFIGURED, database.dialect)
    wakes: list[Hint] = []
    context = make_context(database, tmp_path / "logs", hint=wakes.append, configuration_hash="the hash")
    with logs.configure(tmp_path / "logs", level="info", json=True, owner="owner", max_file_mb=1):
        async with serving(context) as client:
            yield Api(client, context, applied.asset_ids, wakes)


@pytest.fixture
async def guarded(api: Api) -> AsyncIterator[Api]:
    """An application that requires tokens."""
    context = adapted(api.context, auth="tokens")
    async with serving(context) as client:
        yield Api(client, context, api.asset_ids, api.wakes)
