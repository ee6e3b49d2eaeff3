"""`settings.alerts` works in a daemon that is started as people start it."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from tests.effort import PATIENCE
from tests.receivers import Hook
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
CONFIGURATION = """
version: 1
settings:
  api: {auth: none, port: PORT}
  alerts:
    - {on: [watcher_failing, watcher_late, run_failed], to: {webhook: {url: "${HOOK}"}}}
assets:
  inbox:
    uri: file://FOLDER/inbox
    expect_every: 10s
    watchers: {inbox_files: {trigger: file.new_files, interval: 100ms, start: all}}
"""


async def test_a_failing_and_late_watcher_is_alerted_and_so_is_its_recovery(tmp_path: Path, hook: Hook) -> None:
    port, inbox = free_port(), tmp_path / "inbox"
    text = CONFIGURATION.replace("PORT", str(port)).replace("FOLDER", str(tmp_path))
    (tmp_path / "watchers.yaml").write_text(text)
    environment = {**os.environ, "HOOK": hook.url}
    with anyio.fail_after(PATIENCE):
        async with running_daemon(tmp_path / "watchers.yaml", f"http://127.0.0.1:{port}", environment):
            while told(hook) != {("watcher_failing", "firing"), ("watcher_late", "firing")}:
                await anyio.sleep(0.1)
            inbox.mkdir()
            while len(told(hook)) < 4:
                (inbox / uuid4().hex).touch()  # again and again: what arrived is soon late again
                await anyio.sleep(0.5)
    subjects = {body["alert"]: body["subject"] for body in hook.bodies}
    assert subjects == {"watcher_failing": {"watcher": "inbox_files"}, "watcher_late": {"asset": "inbox"}}


def told(hook: Hook) -> set[tuple[str, str]]:
    return {(body["alert"], body["state"]) for body in hook.bodies}
