"""The application's context over a fresh metadata database, with its logs in files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from store.catalog import catalog_sync
from store.database import Database
from store.state.attributed import AttributedEntries
from tests.service.api.application import CONFIGURED, SECRET, Api, serving
from watcher.host import logs
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext


@pytest.fixture
async def api(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """Everybody may do everything."""
    async with database.transaction() as session:
        applied = await catalog_sync.apply(session, CONFIGURED, database.dialect)
    wakes: list[Hint] = []
    context = ApiContext(
        database=database,
        entries=AttributedEntries(database.dialect),
        secrets=[SECRET],
        auth="none",
        base_url=None,
        logs_directory=tmp_path / "logs",
        max_value_storage_bytes=65535,
        default_retention_days=30,
        clear_on_success=False,
        hint=wakes.append,
        configuration_hash="the hash",
    )
    with logs.configure(tmp_path / "logs", level="info", json=True, owner="owner", max_file_mb=1):
        async with serving(context) as client:
            yield Api(client, context, applied.asset_ids, wakes)


@pytest.fixture
async def guarded(api: Api) -> AsyncIterator[Api]:
    """The same, with tokens asked for."""
    context = replace(api.context, auth="tokens")
    async with serving(context) as client:
        yield Api(client, context, api.asset_ids, api.wakes)
