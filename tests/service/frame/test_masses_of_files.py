"""A daemon whose folder vanishes and returns: people are told until it is back, and nothing is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.frame.test_reloads import Daemon
from tests.torture.daemons import until

pytestmark = [pytest.mark.service, pytest.mark.slow]


def findings(daemon: Daemon, name: str) -> list[dict[str, Any]]:
    return [*daemon.watchers()[name]["findings"]]


@pytest.mark.parametrize("mode", ["strict", "window"])
def test_a_folder_that_vanishes_and_returns_is_no_news(tmp_path: Path, mode: str) -> None:
    daemon = Daemon(tmp_path)
    inbox, away = daemon.watch("inbox", mode=mode), tmp_path / "away"
    daemon.write()
    for number in range(252):
        (inbox / f"{number}.csv").write_text(str(number))
    with daemon.running():
        until(lambda: len(daemon.files()) == 252)
        for _ in range(2):
            inbox.rename(away)
            inbox.mkdir()
            until(lambda: len(findings(daemon, "inbox_files")) > 0)
            [finding] = findings(daemon, "inbox_files")
            assert (finding["check"], finding["level"]) == ("vanished", "warning")
            assert finding["message"].startswith("252 of 252 files that were handled are not listed any more, since 2")
            assert finding["remedy"].startswith("if they were removed on purpose, nothing is to be done")
            until(lambda: len(daemon.get("/api/v2/problems").json()) > 0)
            [problem] = daemon.get("/api/v2/problems").json()
            assert problem["message"] == f"the watcher inbox_files: {finding['message']}"
            inbox.rmdir()
            away.rename(inbox)
            until(lambda: findings(daemon, "inbox_files") == [])
        (inbox / "new.csv").write_text("x")
        until(lambda: len(daemon.files()) == 253)
        assert set(daemon.files().values()) == {1}
        assert daemon.watchers()["inbox_files"]["state"] == "running"
