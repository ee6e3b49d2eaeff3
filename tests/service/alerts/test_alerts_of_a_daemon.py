"""`settings.alerts` of a daemon as people run it."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.effort import PATIENCE
from tests.service.alerts.conftest import Hook
from watcher.demo.daemon import running_daemon
from watcher.demo.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
CONFIGURATION = """
version: 1
settings:
  api: {auth: none, port: PORT}
  alerts:
    - {on: [watcher_failing, run_failed], to: {webhook: {url: "${HOOK}"}}}
assets:
  inbox: {uri: "file://FOLDER/inbox", watchers: {inbox_files: {trigger: file.new_files, interval: 100ms}}}
"""


async def test_a_watcher_that_fails_is_told_and_so_is_that_it_works_again(tmp_path: Path, hook: Hook) -> None:
    port = free_port()
    text = CONFIGURATION.replace("PORT", str(port)).replace("FOLDER", str(tmp_path))
    (tmp_path / "watchers.yaml").write_text(text)
    environment = {**os.environ, "HOOK": hook.url}
    with anyio.fail_after(PATIENCE):
        async with running_daemon(tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}", environment):
            while not hook.bodies:
                await anyio.sleep(0.1)
            (tmp_path / "inbox").mkdir()
            while len(hook.bodies) == 1:
                await anyio.sleep(0.1)
    assert [body["state"] for body in hook.bodies] == ["firing", "resolved"]
    assert hook.bodies[0]["subject"] == {"watcher": "inbox_files"}
