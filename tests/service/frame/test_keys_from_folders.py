"""A daemon gives the events of a watcher the partition keys of their folders, also where the trigger has a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from watcher.features.demo.daemon import running_daemon
from watcher.host.home import known_secret
from watcher.serving import owner_tokens
from watcher.shared.servers import free_port

CONFIGURATION = """
version: 1
settings: {{home: {folder}/home, api: {{port: {port}}}}}
assets:
  orders:
    watchers:
      orders_files: {{trigger: file.new_files, path: {folder}/in, start: all, min_age: 0s, isolation: {isolation},
                      partition: {{day: "dt={{}}", region: "region={{}}"}}}}
"""


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_events_have_the_keys_of_their_folders(tmp_path: Path, isolation: str) -> None:
    for name in ("dt=1/region=eu/a.csv", "dt=1/region=us/b.csv", "dt=1/region=eu/c.csv", "d.csv"):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    port = free_port()
    configuration, url = tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}"
    configuration.write_text(CONFIGURATION.format(folder=tmp_path, port=port, isolation=isolation))
    async with running_daemon(configuration, url, dict(os.environ)):
        secret = known_secret(tmp_path / "home")
        assert secret is not None
        headers = {"Authorization": f"Bearer {owner_tokens.issue(secret, 'cli:ann')}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            with anyio.fail_after(PATIENCE):
                while not (events := (await client.get("/api/v2/assets/events")).json()["asset_events"]):
                    await anyio.sleep(0.1)
    events.sort(key=lambda event: event["id"])
    assert [(event["partition_key"], event["extra"]["count"]) for event in events] == [
        ("1|eu", 2),
        ("1|us", 1),
        (None, 1),
    ]
