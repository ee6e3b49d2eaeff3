"""A process of any role answers probes and Prometheus. The health check and the commands find it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.effort import PATIENCE
from tests.torture.daemons import Daemons, until

pytestmark = pytest.mark.service

NOTHING = {"assets": {"inbox": {}}}


def probe(home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "WATCHER_SETTINGS__HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-P", "-m", "watcher.probe"], capture_output=True, text=True, check=False, env=environment
    )


def test_a_process_without_the_api_answers_probes_at_a_port_of_its_own(tmp_path: Path) -> None:
    assert probe(tmp_path / "home").returncode == 1
    with Daemons(tmp_path, NOTHING) as daemons:
        daemons.start("", "--roles", "triggerer,scheduler")
        until(lambda: daemons.records("daemon.started"))
        [started] = daemons.records("daemon.started")
        assert started["url"] != daemons.address, "that port is for the process with the role `api`"
        with httpx.Client(base_url=started["url"], timeout=PATIENCE) as client:
            assert client.get("/healthz").json() == {"status": "alive"}
            assert client.get("/readyz").json() == {"status": "ready", "reasons": [], "warnings": []}
            assert re.search("^watcher_ready 1.0$", client.get("/metrics").text, re.MULTILINE)
            assert {client.get(path).status_code for path in ("/", "/api/v2/assets", "/openapi.json")} == {404}
        assert probe(tmp_path / "home").returncode == 0
        assert daemons.stop() == 0
    checked = probe(tmp_path / "home")
    assert checked.returncode == 1
    assert len(checked.stderr.splitlines()) == 1


@pytest.mark.feature("commands")
def test_a_port_that_the_daemon_chose_is_found_by_the_health_check_and_by_commands(tmp_path: Path) -> None:
    settings = {"api": {"port": 0, "auth": "none"}}
    with Daemons(tmp_path, NOTHING, **settings) as daemons:
        daemons.start()
        until(lambda: daemons.records("daemon.started"))
        assert probe(tmp_path / "home").returncode == 0
        words = [sys.executable, "-m", "watcher", "assets", "list", "-c", str(daemons.configuration)]
        environment = {**os.environ, "WATCHER_SETTINGS__HOME": str(tmp_path / "home")}
        answer = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert (answer.returncode, "inbox" in answer.stdout) == (0, True), answer.stderr
