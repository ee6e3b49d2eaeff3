"""The findings of a daemon's watchers are in its API, commands and metrics until their causes are fixed."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import httpx
import pytest

from tests.effort import PATIENCE
from tests.faulty_s3 import Faults, FaultyS3, faulty_s3, without_etags
from tests.servers import PostgresDatabase, S3Server
from tests.service.s3.conftest import put
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

__all__ = ["put"]
pytestmark = [pytest.mark.service, pytest.mark.slow]

TABLES = """
CREATE TABLE orders (id bigserial PRIMARY KEY, note text);
CREATE TABLE locked (id bigserial PRIMARY KEY, note text);
"""
DAY_AND_AN_HOUR, HOUR = 90_000.0, 3600.0


def document(port: int, database: PostgresDatabase, servers: Mapping[str, FaultyS3], bucket: str) -> dict[str, Any]:
    often = {"interval": "200ms", "start": "all"}
    rows = {"trigger": "postgres.new_rows", "connection": "shop", **often}
    keys = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}
    files = {"trigger": "s3.new_files", "bucket": bucket, "lateness": "3s", **often}
    return {
        "version": 1,
        "settings": {"home": "home", "api": {"port": port, "auth": "none"}},
        "connections": {
            "shop": {"type": "postgres", "dsn": database.dsn},
            **{name: {"type": "s3", "endpoint_url": server.endpoint, **keys} for name, server in servers.items()},
        },
        "assets": {
            "orders": {"watchers": {"rows": {"table": "public.orders", **rows}}},
            "locked": {"watchers": {"locked_rows": {"table": "public.locked", "lock_timeout": "100ms", **rows}}},
            **{name: {"watchers": {name: {"connection": name, "on_bad_row": "report", **files}}} for name in servers},
            "odd_too": {"watchers": {"stopped": {"connection": "odd", **files}}},
        },
    }


@pytest.fixture
async def admin(postgres_database: PostgresDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_database.dsn, server_settings={"application_name": "migration"})
    await connection.execute(TABLES)
    yield connection
    await connection.close()


@pytest.fixture
async def servers(s3_server: S3Server) -> AsyncIterator[dict[str, FaultyS3]]:
    """Four servers with the same buckets. Each name is that of a connection, an asset and a watcher."""
    async with AsyncExitStack() as stack:
        names = ("day_ahead", "hour_ahead", "bare", "odd")
        made = [faulty_s3(s3_server, Faults(), page_size=1000, seed=1) for _ in names]
        ways = {name: await stack.enter_async_context(each) for name, each in zip(names, made, strict=True)}
        ways["bare"].page = without_etags
        yield ways


async def watcher_when(api: httpx.AsyncClient, name: str, **expected: Any) -> dict[str, Any]:
    """Return the watcher once it is as expected. `checks` are those of its findings."""
    with anyio.fail_after(PATIENCE):
        while True:
            watcher: dict[str, Any] = (await api.get(f"/api/v2/watchers/{name}")).raise_for_status().json()
            watcher["checks"] = [finding["check"] for finding in watcher["findings"]]
            if {key: watcher[key] for key in expected} == expected:
                return watcher
            await anyio.sleep(0.1)


async def test_findings_and_waiting_are_shown_wherever_people_look(
    tmp_path: Path,
    postgres_database: PostgresDatabase,
    admin: asyncpg.Connection,
    servers: dict[str, FaultyS3],
    bucket: str,
    put: Any,
) -> None:
    port = free_port()
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(json.dumps(document(port, postgres_database, servers, bucket)))
    url = f"http://127.0.0.1:{port}"
    async with running_daemon(configuration, url, os.environ), httpx.AsyncClient(base_url=url) as api:
        await of_a_table(api, admin)
        await of_a_bucket(api, servers, put)
        await everywhere(api, configuration)
        await of_a_bucket_that_is_mended(api, servers, put, configuration)
        await of_a_table_that_is_mended(api, admin)


async def of_a_table(api: httpx.AsyncClient, admin: asyncpg.Connection) -> None:
    await watcher_when(api, "rows", state="running", checks=[])
    await admin.execute("INSERT INTO orders (id) VALUES (1000); INSERT INTO orders DEFAULT VALUES")
    watcher = await watcher_when(api, "rows", state="running", checks=["ids ahead"])
    [finding] = watcher["findings"]
    assert (finding["level"], finding.keys()) == ("warning", {"check", "level", "message", "remedy", "since"})
    answer = (await api.get("/api/v2/watchers/rows/findings")).json()
    assert answer == {"findings": watcher["findings"], "total_entries": 1}


async def of_a_bucket(api: httpx.AsyncClient, servers: dict[str, FaultyS3], put: Any) -> None:
    for name in (*servers, "stopped"):
        await watcher_when(api, name, state="running", checks=[])
    put("a")
    await watcher_when(api, "bare", state="running", checks=["etags"])
    for name, skews in {"day_ahead": [DAY_AND_AN_HOUR, 0.0, 0.0], "hour_ahead": [0.0, HOUR]}.items():
        servers[name].skew = cycle(skews).__next__
        await watcher_when(api, name, state="running", checks=["clock"])
    servers["odd"].page = lambda page: page.replace(b"<Key>odd</Key>", b"<Key>od%FF</Key>")
    put("b", "odd", "z")
    await watcher_when(api, "odd", state="running", checks=["rejected"])
    watcher = await watcher_when(api, "stopped", state="failing")
    assert watcher["error"].startswith(r"no event can name the file od\xff: its key holds bytes that are not UTF-8")


async def everywhere(api: httpx.AsyncClient, configuration: Path) -> None:
    checks = {"rows": "ids ahead", "day_ahead": "clock", "hour_ahead": "clock", "bare": "etags", "odd": "rejected"}
    metrics = (await api.get("/metrics")).text
    status = await command(configuration, "status", exit_code=6)
    for name, check in checks.items():
        asset = "orders" if name == "rows" else name
        assert f'watcher_findings{{asset="{asset}",check="{check}",watcher="{name}"}} 1.0' in metrics
        assert [warning for warning in status["warnings"] if warning.startswith(f"the watcher {name}: ")] != []
    assert any(problem.startswith("the watcher stopped is failing: ") for problem in status["problems"])


async def of_a_bucket_that_is_mended(
    api: httpx.AsyncClient, servers: dict[str, FaultyS3], put: Any, configuration: Path
) -> None:
    [kept] = await command(configuration, "rejected", "list", "odd")
    assert (kept["key"], "not UTF-8" in kept["reason"]) == (r"od\xff", True)
    for name in ("day_ahead", "hour_ahead"):
        servers[name].skew = lambda: 0.0
    servers["odd"].page = bytes
    assert await command(configuration, "rejected", "retry", "odd") == {"retried": 1}
    put("zz")
    for name in (*servers, "stopped"):
        await watcher_when(api, name, state="running", checks=["etags"] if name == "bare" else [], error=None)
        with anyio.fail_after(PATIENCE):
            while await keys_of(api, name) != Counter(["a", "b", "odd", "z", "zz"]):
                await anyio.sleep(0.1)


async def of_a_table_that_is_mended(api: httpx.AsyncClient, admin: asyncpg.Connection) -> None:
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
        metrics = (await api.get("/metrics")).text
        assert 'watcher_state{asset="locked",state="waiting",watcher="locked_rows"} 1.0' in metrics
        await watcher_when(api, "rows", state="running")
    await watcher_when(api, "locked_rows", state="running", error=None)
    ranges = [limits for event in await events_of(api, "rows") for limits in event["ranges"]]
    assert sorted(number for low, high in ranges for number in range(low, high + 1)) == [1, 2, 1000, 1001]


async def events_of(api: httpx.AsyncClient, watcher: str) -> list[dict[str, Any]]:
    page = await get(api, "/api/v2/assets/events", source_watcher=watcher, limit=100)
    return [event["extra"] for event in page["asset_events"]]


async def keys_of(api: httpx.AsyncClient, watcher: str) -> Counter[str]:
    return Counter(file["key"] for event in await events_of(api, watcher) for file in event["files"])


async def command(configuration: Path, *words: str, exit_code: int = 0) -> Any:
    """Return what a command prints as JSON."""
    program = [sys.executable, "-m", "watcher", *words, "-c", str(configuration), "--json"]
    done = await anyio.run_process(program, check=False)
    assert done.returncode == exit_code, done.stderr
    return json.loads(done.stdout)
