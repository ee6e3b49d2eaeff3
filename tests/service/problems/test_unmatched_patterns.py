"""A pattern that selects nothing is an error of a new watcher, and a warning of one that has reported files before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.databases import on_both
from tests.torture.daemons import Daemons, until
from watcher.cli.app import app

pytestmark = [on_both, pytest.mark.service]


def test_a_pattern_that_selects_nothing_any_more_is_a_warning(tmp_path: Path, database_url: str) -> None:
    """What it selects may be cleaned away: nothing is wrong with it then."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.txt").touch()
    files = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "match": "*.csv", "start": "all"}
    document = {"assets": {"inbox": {"uri": f"file://{inbox}", "watchers": {"files": files}}}}
    with Daemons(tmp_path, document, database_url) as daemons:
        new = match_finding(daemons, exits=3)
        assert (new["level"], new["message"]) == ("error", "1 file, none matches `*.csv`; the first: a.txt")
        (inbox / "b.csv").touch()
        daemons.start()
        until(daemons.is_ready)
        until(lambda: daemons.get("/api/v2/assets/events")["total_entries"] == 1)
        assert daemons.stop() == 0
        (inbox / "b.csv").unlink()
        assert match_finding(daemons, exits=0) == {**new, "level": "warning"}


def match_finding(daemons: Daemons, *, exits: int) -> dict[str, Any]:
    words = ["check", "--connect", "--json", "-c", str(daemons.configuration)]
    result = CliRunner().invoke(app, words, env={"WATCHER_SETTINGS__HOME": str(daemons.home / "home")})
    assert result.exit_code == exits, result.output
    [finding] = [each for each in json.loads(result.stdout) if each["check"] == "match"]
    answer: dict[str, Any] = finding
    return answer
