"""A plug-in's trigger in the whole program: the daemon, its API, its metrics, and commands with and without a daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.contract.sources import PLUGINS, NoticeBoard
from tests.effort import PATIENCE
from tests.service.isolation.hosting import descendants
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture
def board() -> Iterator[NoticeBoard]:
    with NoticeBoard() as board:
        yield board


@pytest.fixture
def environment(board: NoticeBoard) -> dict[str, str]:
    return {**os.environ, "BOARD_TOKEN": board.token}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def file(tmp_path: Path, board: NoticeBoard, port: int) -> Path:
    keys = {"trigger": "notice_board.NewNotices", "connection": "board", "topic": "sales", "interval": "20ms"}
    document = {
        "version": 1,
        "settings": {"plugins_dir": str(PLUGINS), "api": {"auth": "none", "port": port}},
        "connections": {"board": {**(board.connection or {}), "token": "${BOARD_TOKEN}"}},
        "assets": {"notices": {"watchers": {"new_notices": keys}}},
    }
    path = tmp_path / "watchers.yaml"
    path.write_text(json.dumps(document))
    return path


async def watcher(file: Path, environment: dict[str, str], *words: str) -> Any:
    """Return what a command prints as JSON."""
    command = [sys.executable, "-m", "watcher", *words, "--json", "-c", str(file)]
    return json.loads((await anyio.run_process(command, env=environment, stderr=subprocess.DEVNULL)).stdout)


async def test_a_plug_in_works_in_the_daemon_its_api_its_metrics_and_in_commands(
    file: Path, board: NoticeBoard, environment: dict[str, str], port: int
) -> None:
    [finding] = await watcher(file, environment, "check", "--connect")
    assert (finding["watcher"], finding["level"], finding["check"]) == ("new_notices", "ok", "board")
    for number in range(1, 4):
        board.add(number)
    url = f"http://127.0.0.1:{port}"
    async with running_daemon(file, url, environment) as daemon, httpx.AsyncClient(base_url=url, timeout=60) as http:
        assert daemon.process is not None
        below = descendants(daemon.process.pid)
        with anyio.fail_after(PATIENCE):
            while (await http.get("/api/v2/watchers/new_notices")).json()["watermark"] != {"up_to": 3, "posted": 3}:
                await anyio.sleep(0.05)
        assert 'watcher_notices_waiting{asset="notices",watcher="new_notices"} 0.0' in (await http.get("/metrics")).text
        preview = await watcher(file, environment, "rewind", "new_notices", "--to", "1", "--preview")
        assert preview["items"] == 2
        await watcher(file, environment, "pause", "new_notices")
    with anyio.fail_after(PATIENCE):
        while any(Path(f"/proc/{process}").exists() for process in below):
            await anyio.sleep(0.05)
    board.add(4)
    assert (await watcher(file, environment, "poll", "new_notices", "--dry-run"))["items"] == 1
