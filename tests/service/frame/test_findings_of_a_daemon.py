"""One daemon whose watchers find something: API, command line and metrics say it, until it is mended."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import httpx
import pytest

from tests.effort import PATIENCE
from tests.servers import PostgresDatabase
from watcher.demo.daemon import running_daemon
from watcher.demo.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]

TABLES = """
CREATE TABLE orders (id bigserial PRIMARY KEY, note text);
CREATE TABLE locked (id bigserial PRIMARY KEY, note text);
"""


def document(port: int, database: PostgresDatabase) -> dict[str, Any]:
    often = {"trigger": "postgres.new_rows", "connection": "shop", "interval": "200ms", "start": "all"}
    return {
        "version": 1,
        "settings": {"home": "home", "api": {"port": port, "auth": "none"}},
        "connections": {"shop": {"type": "postgres", "dsn": database.dsn}},
        "assets": {
            "orders": {"watchers": {"rows": {"table": "public.orders", **often}}},
            "locked": {"watchers": {"locked_rows": {"table": "public.locked", "lock_timeout": "100ms", **often}}},
        },
    }


@pytest.fixture
async def admin(postgres_database: PostgresDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_database.dsn, server_settings={"application_name": "migration"})
    await connection.execute(TABLES)
    yield connection
    await connection.close()


async def watcher_when(api: httpx.AsyncClient, name: str, **expected: Any) -> dict[str, Any]:
    """Once it is as expected; `checks` are those of its findings."""
    with anyio.fail_after(PATIENCE):
        while True:
            watcher: dict[str, Any] = (await api.get(f"/api/v2/watchers/{name}")).raise_for_status().json()
            watcher["checks"] = [finding["check"] for finding in watcher["findings"]]
            if {key: watcher[key] for key in expected} == expected:
                return watcher
            await anyio.sleep(0.1)


async def test_findings_and_waiting_are_told_wherever_people_look(
    tmp_path: Path, postgres_database: PostgresDatabase, admin: asyncpg.Connection
) -> None:
    port = free_port()
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(json.dumps(document(port, postgres_database)))
    url = f"http://127.0.0.1:{port}"
    async with running_daemon(configuration, url, os.environ), httpx.AsyncClient(base_url=url) as api:
        await watcher_when(api, "rows", state="running", checks=[])
        await admin.execute("INSERT INTO orders (id) VALUES (1000); INSERT INTO orders DEFAULT VALUES")
        watcher = await watcher_when(api, "rows", state="running", checks=["ids ahead"])
        [finding] = watcher["findings"]
        assert (finding["level"], finding.keys()) == (
            "warning",
            {"check", "level", "message", "remedy", "since"},
        )
        answer = (await api.get("/api/v2/watchers/rows/findings")).json()
        assert answer == {"findings": watcher["findings"], "total_entries": 1}
        metrics = (await api.get("/metrics")).text
        assert 'watcher_findings{asset="orders",check="ids ahead",watcher="rows"} 1.0' in metrics
        command = [sys.executable, "-m", "watcher", "watchers", "findings", "rows", "-c", str(configuration)]
        assert b"ids ahead" in (await anyio.run_process(command)).stdout

        await admin.execute("ALTER SEQUENCE orders_id_seq CACHE 5; INSERT INTO orders DEFAULT VALUES")
        watcher = await watcher_when(api, "rows", state="failing", checks=["sequence"])
        assert "ALTER SEQUENCE orders_id_seq CACHE 1" in watcher["error"]
        await admin.execute("ALTER SEQUENCE orders_id_seq CACHE 1; SELECT setval('orders_id_seq', 1000)")
        await admin.execute("INSERT INTO orders DEFAULT VALUES")
        await watcher_when(api, "rows", state="running", checks=[])

        async with admin.transaction():
            await admin.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
            watcher = await watcher_when(api, "locked_rows", state="waiting", error_count=0)
            assert watcher["error"].startswith(f"pid {admin.get_server_pid()} locks public.locked (user postgres, ")
            assert "application migration" in watcher["error"]
            assert (
                'watcher_state{asset="locked",state="waiting",watcher="locked_rows"} 1.0'
                in (await api.get("/metrics")).text
            )
            await watcher_when(api, "rows", state="running")
        await watcher_when(api, "locked_rows", state="running", error=None)
        events = (await api.get("/api/v2/assets/events")).json()["asset_events"]
        assert sorted(event["extra"]["ranges"][0] for event in events) == [[1, 1], [2, 2], [1000, 1000], [1001, 1001]]
