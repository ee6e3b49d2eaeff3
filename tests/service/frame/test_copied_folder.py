"""A daemon whose folder is copied to another disk: people are told, nothing is repeated, and a person decides."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import loopback
from tests.service.frame.test_masses_of_files import findings
from tests.service.frame.test_reloads import Daemon
from tests.torture.daemons import until

pytestmark = [pytest.mark.service, pytest.mark.slow]


def copy(folder: Path) -> None:
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside)
    folder.rename(folder.with_name("away"))
    aside.rename(folder)


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_copied_folder_waits_for_a_decision_and_repeats_nothing(tmp_path: Path, isolation: str) -> None:
    daemon = Daemon(tmp_path)
    inbox = daemon.watch("inbox", isolation=isolation)
    daemon.write()
    for number in range(30):
        (inbox / f"{number}.csv").write_text(str(number))
    with daemon.running():
        until(lambda: len(daemon.files()) == 30)
        copy(inbox)
        until(lambda: daemon.watchers()["inbox_files"]["state"] == "blocked")
        [finding] = findings(daemon, "inbox_files")
        assert (finding["check"], finding["level"]) == ("copied", "warning")
        assert finding["message"].startswith("30 of 30 new files have path, size and time of writing of files")
        assert daemon.watchers()["inbox_files"]["error"] == f"{finding['message']}; {finding['remedy']}"
        until(lambda: len(daemon.get("/api/v2/problems").json()) > 0)
        [problem] = daemon.get("/api/v2/problems").json()
        assert problem["kind"] == "watcher_failing"
        explained = daemon.get(f"/api/v2/explain?item={inbox}/1.csv").text
        assert "it is one of many copies" in explained

        (inbox / "new.csv").write_text("x")
        url = f"http://127.0.0.1:{daemon.port}/api/v2/watchers/inbox_files/rewind"
        assert loopback.post(url, json={"to": "here"}, timeout=60).status_code == 200
        until(lambda: len(daemon.files()) == 31)
        until(lambda: daemon.watchers()["inbox_files"]["state"] == "running")
        until(lambda: findings(daemon, "inbox_files") == [])
        assert set(daemon.files().values()) == {1}
        again = loopback.post(url, json={"to": "here"}, timeout=60)
        assert again.status_code == 422
        assert "nothing to keep with `here`" in again.text
