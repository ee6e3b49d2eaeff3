"""A real daemon hosts triggers that do what they must not, beside a watcher whose files must all be told, once each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.effort import PATIENCE
from watcher.demo.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
PLUGINS = Path(__file__).parents[2] / "plugins"

HARMLESS = [
    *("constructor raises", "check raises", "raises"),
    *("constructor raises-cancelled", "check raises-cancelled", "raises-cancelled", "cancels-its-task"),
    *("constructor raises-exit", "check raises-exit", "raises-exit", "exits"),
    *("constructor raises-interrupt", "check raises-interrupt", "raises-interrupt", "raises-after-a-batch"),
    *("raises-memory", "raises-recursion", "raises-group", "raises-unspeakable", "raises-generator-exit"),
    *("check hangs", "hangs"),
    *("yields-garbage", "yields-none", "yields-nan", "yields-object", "yields-surrogate", "yields-no-event"),
    *("yields-many", "yields-much"),
]


class Daemon:
    """`watcher run` with a witness, which looks into a folder, and hostile watchers, named by what they do."""

    def __init__(self, folder: Path, hostile: Sequence[str]) -> None:
        self.inbox, self.log = folder / "inbox", folder / "daemon.log"
        self.inbox.mkdir()
        self.sent: list[str] = []
        self.api = f"http://127.0.0.1:{(port := free_port())}"
        hostiles = {
            does.replace(" ", "."): {"trigger": "unruly.UnrulyTrigger", "isolation": "none", "does": does}
            for does in hostile
        }
        witness = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "start": "all"}
        self.configuration = folder / "watchers.yaml"
        document = {
            "version": 1,
            "settings": {
                "api": {"port": port, "auth": "none"},
                "triggerer": {"poll_timeout": "2s", "grace": "3s", "heartbeat": "500ms", "lease": "5s"},
                "plugins_dir": str(PLUGINS),
            },
            "assets": {
                "inbox": {
                    "uri": f"file://{self.inbox}",
                    "watchers": {"witness": witness},
                },
                "hostile": {"watchers": hostiles},
            },
        }
        self.configuration.write_text(json.dumps(document))

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        words = [sys.executable, "-m", "watcher", "run", "--config", str(self.configuration)]
        with self.log.open("ab") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.kill()

    def get(self, path: str) -> Any:
        return httpx.get(self.api + path, timeout=PATIENCE).raise_for_status().json()

    def states(self) -> dict[str, dict[str, Any]]:
        return {watcher["name"]: watcher for watcher in self.get("/api/v2/watchers")["watchers"]}

    def send(self) -> None:
        """Another file for the witness."""
        self.sent.append(f"{len(self.sent)}.txt")
        (self.inbox / self.sent[-1]).write_text("x")

    def told(self) -> list[str]:
        (asset,) = self.get("/api/v2/assets?name_pattern=inbox")["assets"]
        events = self.get(f"/api/v2/assets/events?limit=1000&asset_id={asset['id']}")["asset_events"]
        return [Path(file["path"]).name for event in events for file in event["extra"]["files"]]

    def wait_for_witness(self) -> None:
        until(lambda: len(self.told()) >= len(self.sent))

    def records(self, event: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record["event"] == event]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _holds(condition):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except httpx.TransportError:
        return False


def test_whatever_a_trigger_raises_or_yields_is_its_own_watchers_failure(tmp_path):
    daemon = Daemon(tmp_path, HARMLESS)
    with daemon.running() as process:
        until(lambda: daemon.states()["witness"]["state"] == "running")
        for _ in range(5):
            daemon.send()
            daemon.wait_for_witness()
        names = [does.replace(" ", ".") for does in HARMLESS]
        until(lambda: all(daemon.states()[name]["error_count"] >= 1 for name in names))
        states = daemon.states()
        daemon.send()
        daemon.wait_for_witness()
        assert Counter(daemon.told()) == Counter(daemon.sent)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert {states[name]["state"] for name in names} == {"failing"}
    assert states["hangs"]["error"].startswith("the first batch took longer than 2 s")
    assert states["raises-exit"]["error"].startswith("SystemExit was raised")
    assert "100000 events" in states["yields-many"]["error"]


@pytest.mark.parametrize("does", ["sleeps", "check spins"])
def test_who_blocks_everybody_is_named_and_sigterm_ends_the_process_all_the_same(tmp_path, does):
    daemon = Daemon(tmp_path, [does])
    with daemon.running() as process:
        until(lambda: any(record.get("watcher") == does.replace(" ", ".") for record in daemon.records("loop.blocked")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1
    (blocked,) = [record for record in daemon.records("loop.blocked") if "watcher" in record]
    assert "unruly.py" in "".join(blocked["stack"])
    (overdue,) = daemon.records("daemon.stop_overdue")
    assert overdue["watchers"] == [f"watcher {does.replace(' ', '.')}", "watcher witness"]


def test_a_trigger_that_never_awaits_or_dies_behind_our_back_leaves_the_others_their_turns(tmp_path):
    daemon = Daemon(tmp_path, ["never-awaits", "floods", "dies-behind"])
    with daemon.running() as process:
        for _ in range(5):
            daemon.send()
            daemon.wait_for_witness()
        assert Counter(daemon.told()) == Counter(daemon.sent)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_trigger_that_ignores_its_end_holds_up_nobody_and_is_named(tmp_path):
    daemon = Daemon(tmp_path, ["ignores-cancellation"])
    with daemon.running() as process:
        until(lambda: daemon.states()["ignores-cancellation"]["state"] == "starting")
        httpx.post(f"{daemon.api}/api/v2/watchers/ignores-cancellation/pause").raise_for_status()
        for _ in range(3):
            daemon.send()
            daemon.wait_for_witness()
        until(lambda: bool(daemon.records("watcher.not_stopping")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1
    assert daemon.records("daemon.stop_overdue")[0]["watchers"] == ["watcher ignores-cancellation"]
