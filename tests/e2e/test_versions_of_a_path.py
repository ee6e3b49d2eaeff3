"""One path that is written again and again: its newest version is loaded, and no run fails."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template
from typing import Any, Final

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.servers import running_postgres
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

pytestmark = pytest.mark.slow
CONFIGURATION: Final = Template("""
version: 1
settings: {$database}
assets:
  hot:
    uri: "file://$folder/"
    watchers:
      files: {trigger: file.new_files, path: "$folder", start: all, interval: 500ms}
jobs:
  load:
    schedule: hot
    retries: 1
    retry_delay: 1s
    spark: {application: load.py, env: {SPARK_HOME: $spark}}
""")
PROGRAM: Final = """
import os, time
from asset_job import run

with run() as r:
    files = r.triggering_asset_events.files()
    time.sleep(1)
    for file in files:
        status = os.stat(file["path"])
        if (status.st_size, status.st_ino) != (file["size"], file["inode"]):
            raise RuntimeError(file["path"] + " has changed")
        with open(file["path"]) as content, open("$loaded", "a") as loaded:
            loaded.write(os.path.basename(file["path"]) + " " + content.read() + chr(10))
    print("superseded", len(r.triggering_asset_events.superseded))
"""
RUNS: Final = "/api/v2/dags/load/dagRuns"


@asynccontextmanager
async def loading(folder: Path, database: str) -> AsyncIterator[tuple[Daemon, httpx.AsyncClient]]:
    """A daemon that watches `in`, and whose job notes in `loaded` what it has read."""
    (folder / "in").mkdir()
    (folder / "load.py").write_text(Template(PROGRAM).substitute(loaded=folder / "loaded"))
    configuration = folder / "watchers.yaml"
    text = CONFIGURATION.substitute(folder=folder / "in", spark=stand_in_spark(folder), database=database)
    configuration.write_text(text)
    port = free_port()
    settings = {"WATCHER_SETTINGS__API__PORT": str(port), "WATCHER_SETTINGS__API__AUTH": "none"}
    url = f"http://127.0.0.1:{port}"
    async with (
        running_daemon(configuration, url, {**os.environ, **settings, "WATCHER_URL": url}) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        yield daemon, client


def write(file: Path, text: str) -> None:
    new = file.parent.with_name(".new")
    new.write_text(text)
    new.rename(file)


async def ended(client: httpx.AsyncClient, loaded: Path, words: str) -> list[dict[str, Any]]:
    """Return the runs, once all have ended and these words were loaded."""
    with anyio.fail_after(PATIENCE):
        while True:
            runs: list[dict[str, Any]] = (await get(client, RUNS))["dag_runs"]
            states = {run["state"] for run in runs}
            is_loaded = loaded.exists() and words in loaded.read_text().splitlines()
            if states <= {"success", "failed"} and (is_loaded or "failed" in states):
                return runs
            await anyio.sleep(0.2)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_file_that_is_rewritten_while_its_runs_go_on_fails_no_run(tmp_path: Path, kind: str) -> None:
    with running_postgres(fsync="off") as server, server.database() as database:
        text = "" if kind == "sqlite" else f'database: {{url: "{database.sqlalchemy_url}"}}'
        async with loading(tmp_path, text) as (daemon, client):
            for number in range(1, 13):
                write(tmp_path / "in" / "status.json", f"{number:0{number}}")
                if number in {3, 6}:
                    write(tmp_path / "in" / f"other-{number}.json", "x")
                await anyio.sleep(0.7)
            runs = await ended(client, tmp_path / "loaded", f"status.json {12:012}")
            item = {"item": str(tmp_path / "in" / "status.json")}
            explained = (await client.get("/api/v2/explain", params=item)).raise_for_status().json()
            assert await daemon.stop() == 0
    lines = (tmp_path / "loaded").read_text().splitlines()
    assert {run["state"] for run in runs} == {"success"}, runs
    assert lines.count(f"status.json {12:012}") == 1
    assert {line for line in lines if line.startswith("other")} == {"other-3.json x", "other-6.json x"}
    assert explained["answers"][0]["state"] == "loaded"
