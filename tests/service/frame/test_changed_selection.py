"""A daemon whose watcher gets another pattern: everybody names the same decisions, and `here` keeps what was handled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import loopback
from tests.service.frame.test_reloads import Daemon
from tests.torture.daemons import until

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_wider_pattern_waits_for_a_decision_and_repeats_nothing(tmp_path: Path, isolation: str) -> None:
    daemon = Daemon(tmp_path)
    inbox = daemon.watch("inbox", match="*.csv", isolation=isolation)
    daemon.write()
    for name in ("a.csv", "b.csv", "a.json", "b.json", "c.json"):
        (inbox / name).write_text("x")
    with daemon.running():
        until(lambda: len(daemon.files()) == 2)
        daemon.document["assets"]["inbox"]["watchers"]["inbox_files"]["match"] = "*"
        daemon.write()
        answer = daemon.reload().json()
        findings = json.loads(daemon.command("check", "--connect", "--json").stdout)
        [finding] = [each for each in findings if each["check"] == "source"]
        until(lambda: daemon.watchers()["inbox_files"]["state"] == "blocked")
        error = daemon.watchers()["inbox_files"]["error"]
        assert error == (
            "the source changed: match was '*.csv' and is '*'; configure it as it was, or decide: `watcher rewind inbox_files --to here`"
            " keeps what was handled and reports what only the new selection has (3 now), `watcher rewind inbox_files --to now`"
            " counts all of it as known (5), `watcher rewind inbox_files --to start` reports all of it again (5)"
        )
        assert finding["remedy"] in error
        if isolation == "none":  # a process of its own says it by the watcher's state alone
            is_first = answer["result"] == "applied"  # the daemon reads a changed file by itself, too
            assert answer["decisions"] == ({"inbox_files": error} if is_first else {})
        (inbox / "meanwhile.json").write_text("x")

        daemon.document["assets"]["inbox"]["watchers"]["inbox_files"]["match"] = "*.csv"
        daemon.write()
        assert daemon.reload().json().get("decisions") == {}
        until(lambda: daemon.watchers()["inbox_files"]["state"] == "running")
        (inbox / "c.csv").write_text("x")
        until(lambda: len(daemon.files()) == 3)

        daemon.document["assets"]["inbox"]["watchers"]["inbox_files"]["match"] = "*"
        daemon.write()
        daemon.reload()
        until(lambda: daemon.watchers()["inbox_files"]["state"] == "blocked")
        url = f"http://127.0.0.1:{daemon.port}/api/v2/watchers/inbox_files/rewind"
        preview = loopback.post(url, json={"to": "here", "preview": True}, timeout=60).json()
        assert preview["items"] == 4
        assert loopback.post(url, json={"to": "here"}, timeout=60).status_code == 200
        until(lambda: len(daemon.files()) == 7)
        until(lambda: daemon.watchers()["inbox_files"]["state"] == "running")
        assert set(daemon.files().values()) == {1}
        again = loopback.post(url, json={"to": "here"}, timeout=60)
        assert again.status_code == 422
        assert "nothing to keep with `here`" in again.text
