"""The backends that the suite runs over, each called with and without an event loop."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import uuid4

import pytest
from anyio import to_thread

from store.backends import DEFAULT, load_backend
from store.base import AssetScope, BaseStoreBackend, NeverExpire, Scope, TaskScope
from store.database import Database
from store.metastore import MetastoreStoreBackend
from tests.databases import copied, migrated_postgres, new_asset
from tests.servers import PostgresServer
from tests.service.conftest import database_file, postgres_server

__all__ = ["database_file", "postgres_server"]

T = TypeVar("T")

OF_AN_AUTHOR = os.environ.get("WATCHER_TEST_STORE_BACKEND")
BACKENDS = [
    "memory",
    "metastore on sqlite",
    pytest.param("metastore on postgresql", marks=pytest.mark.service),
    *([OF_AN_AUTHOR] if OF_AN_AUTHOR else []),
]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A backend, and a metadata database: its own where it has one."""

    backend: BaseStoreBackend
    database: Database
    ids: Iterator[int]

    @property
    def lives_in_the_database(self) -> bool:
        return isinstance(self.backend, MetastoreStoreBackend)

    @property
    def has_its_own_eight(self) -> bool:
        return type(self.backend).get is not BaseStoreBackend.get

    async def new_asset(self) -> AssetScope:
        name = uuid4().hex
        asset_id = await new_asset(self.database, name) if self.lives_in_the_database else next(self.ids)
        return AssetScope(asset_id=asset_id, name=name, uri=f"test://{name}")

    async def new_task(self) -> TaskScope:
        return TaskScope(dag_id="load", run_id=uuid4().hex, task_id="load")


@pytest.fixture(scope="module", params=BACKENDS)
def backend_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def database_url(
    backend_name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if backend_name == "metastore on postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with migrated_postgres(server) as url:
            yield url
    else:
        yield copied(request.getfixturevalue("database_file"), tmp_path_factory.mktemp("database"))


@pytest.fixture(scope="module")
async def subject(backend_name: str, database_url: str) -> AsyncIterator[Subject]:
    async with Database.open(database_url) as database:
        backend: BaseStoreBackend
        if backend_name == "memory":
            backend = load_backend("store.memory.MemoryStoreBackend", {}, database)
        elif backend_name.startswith("metastore"):
            backend = load_backend(DEFAULT, {}, database)
        else:
            options = json.loads(os.environ.get("WATCHER_TEST_STORE_OPTIONS", "{}"))
            backend = load_backend(backend_name, options, database)
        yield Subject(backend=backend, database=database, ids=itertools.count(1))


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The four methods of a backend, as a caller with or without an event loop calls them."""

    backend: BaseStoreBackend
    without_loop: bool

    async def get(self, scope: Scope, key: str) -> str | None:
        if self.without_loop:
            return await _in_thread(lambda: self.backend.get(scope, key))
        return await self.backend.aget(scope, key)

    async def set(self, scope: Scope, key: str, value: str, expires_at: datetime | NeverExpire | None = None) -> None:
        if self.without_loop:
            await _in_thread(lambda: self.backend.set(scope, key, value, expires_at=expires_at))
        else:
            await self.backend.aset(scope, key, value, expires_at=expires_at)

    async def delete(self, scope: Scope, key: str) -> None:
        if self.without_loop:
            await _in_thread(lambda: self.backend.delete(scope, key))
        else:
            await self.backend.adelete(scope, key)

    async def clear(self, scope: Scope, *, all_map_indices: bool = False) -> None:
        if self.without_loop:
            await _in_thread(lambda: self.backend.clear(scope, all_map_indices=all_map_indices))
        else:
            await self.backend.aclear(scope, all_map_indices=all_map_indices)


async def _in_thread(call: Callable[[], T]) -> T:
    return await to_thread.run_sync(call)


@pytest.fixture(params=["with an event loop", "without one"])
def store(subject: Subject, request: pytest.FixtureRequest) -> Calls:
    return Calls(backend=subject.backend, without_loop=request.param == "without one")


@pytest.fixture(params=["asset", "task"])
async def scope(subject: Subject, request: pytest.FixtureRequest) -> Scope:
    return await (subject.new_asset() if request.param == "asset" else subject.new_task())


@pytest.fixture
async def new_scope(scope: Scope, subject: Subject) -> Scope:
    """Another one of the same kind."""
    return await (subject.new_asset() if isinstance(scope, AssetScope) else subject.new_task())
