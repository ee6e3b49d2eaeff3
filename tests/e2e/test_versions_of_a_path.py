"""One path that is written again and again: its newest version is loaded, and no run fails."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from string import Template
from typing import Any, Final

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.servers import fresh_bucket, running_postgres, running_s3
from tests.stand_in_spark import stand_in_spark
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = pytest.mark.slow
CONFIGURATION: Final = Template("""
version: 1
settings: {$database}
connections: {$connections}
assets:
  hot:
    uri: "$uri"
    watchers:
      files: {$watcher, start: all, interval: 500ms}
jobs:
  load:
    schedule: hot
    retries: 1
    retry_delay: 1s
    spark: {application: load.py, connections: [$names], env: {SPARK_HOME: $spark}}
""")
PROGRAM: Final = """
import os, time
from asset_job import run
from asset_job.sources.request import S3File
from asset_job.sources.s3_objects import s3_access

def content_of(file):
    if "path" in file:
        status = os.stat(file["path"])
        if (status.st_size, status.st_ino) != (file["size"], file["inode"]):
            raise RuntimeError(file["path"] + " has changed")
        return open(file["path"]).read()
    given = S3File(bucket=file["bucket"], key=file["key"], size=file["size"], etag=file["etag"])
    access = s3_access(r.connections["lake"])
    (_, opening), = access.opened([given])
    with access.errors(given), opening() as opened:
        return b"".join(opened.pieces()).decode()

with run() as r:
    files = r.triggering_asset_events.files()
    time.sleep(1)
    for file in files:
        content = content_of(file)
        with open("$loaded", "a") as loaded:
            loaded.write(os.path.basename(file.get("key") or file["path"]) + " " + content + chr(10))
"""
RUNS: Final = "/api/v2/dags/load/dagRuns"
Write = Callable[[str, str], None]


@contextmanager
def source(kind: str, folder: Path) -> Iterator[tuple[dict[str, str], Write]]:
    """Where files are: what the configuration says of it, and how a file is written anew."""
    if kind == "bucket":
        with running_s3() as server, fresh_bucket(server) as bucket:
            keys = f"access_key_id: {server.access_key}, secret_access_key: {server.secret_key}"
            lake = f"lake: {{type: s3, endpoint_url: '{server.endpoint}', region: {server.region}, {keys}}}"
            watcher = f"trigger: s3.new_files, connection: lake, bucket: {bucket}"
            yield (
                {"connections": lake, "names": "lake", "uri": f"s3://{bucket}/", "watcher": watcher},
                lambda name, text: server.client.put_object(Bucket=bucket, Key=name, Body=text.encode()),
            )
        return
    folder.mkdir()

    def write(name: str, text: str) -> None:
        new = folder.with_name(".new")
        new.write_text(text)
        new.rename(folder / name)

    watcher = f'trigger: file.new_files, path: "{folder}"'
    yield {"connections": "", "names": "", "uri": folder.as_uri(), "watcher": watcher}, write


@asynccontextmanager
async def loading(folder: Path, given: dict[str, str], database: str) -> AsyncIterator[httpx.AsyncClient]:
    """A daemon whose job notes in `loaded` what it has read."""
    (folder / "load.py").write_text(Template(PROGRAM).substitute(loaded=folder / "loaded"))
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.substitute(given, spark=stand_in_spark(folder), database=database))
    port = free_port()
    settings = {"WATCHER_SETTINGS__API__PORT": str(port), "WATCHER_SETTINGS__API__AUTH": "none"}
    url = f"http://127.0.0.1:{port}"
    async with (
        running_daemon(configuration, url, {**os.environ, **settings, "WATCHER_URL": url}) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        yield client
        assert await daemon.stop() == 0


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


@pytest.mark.parametrize(("kind", "dialect"), [("folder", "sqlite"), ("folder", "postgresql"), ("bucket", "sqlite")])
async def test_a_file_that_is_rewritten_while_its_runs_go_on_fails_no_run(
    tmp_path: Path, kind: str, dialect: str
) -> None:
    with running_postgres(fsync="off") as server, server.database() as database, source(kind, tmp_path / "in") as here:
        given, write = here
        text = "" if dialect == "sqlite" else f'database: {{url: "{database.sqlalchemy_url}"}}'
        async with loading(tmp_path, given, text) as client:
            for number in range(1, 13):
                write("status.json", f"{number:0{number}}")
                if number in {3, 6}:
                    write(f"other-{number}.json", "x")
                await anyio.sleep(0.7)
            runs = await ended(client, tmp_path / "loaded", f"status.json {12:012}")
            name = f"{given['uri']}status.json" if kind == "bucket" else str(tmp_path / "in" / "status.json")
            explained = (await client.get("/api/v2/explain", params={"item": name})).raise_for_status().json()
    lines = (tmp_path / "loaded").read_text().splitlines()
    assert {run["state"] for run in runs} == {"success"}, runs
    assert f"status.json {12:012}" in lines
    assert {line for line in lines if line.startswith("other")} == {"other-3.json x", "other-6.json x"}
    assert explained["answers"][0]["state"] == "loaded"
