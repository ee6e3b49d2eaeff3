"""`watcher status` before the first start, while a daemon starts, and after its end: one true sentence, and nothing else."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.databases import on_both
from tests.torture.daemons import Daemons, until
from watcher.cli.app import app
from watcher.features.commands.status import Answers, leads_elsewhere
from watcher.host.home import Life, open_home

pytestmark = pytest.mark.service
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
NEVER = "no daemon has run here yet; start `watcher run`"
STARTING = f"the daemon has been starting since {MOMENT}; ask again in a moment"
STOPPED = f"the daemon that ran here stopped at {MOMENT}; start `watcher run`"
KILLED = f"the daemon that ran here since {MOMENT} was killed, or its machine failed; start `watcher run`"


@pytest.fixture
def daemons(database_url: str, tmp_path: Path) -> Iterator[Daemons]:
    (tmp_path / "inbox").mkdir()
    files = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s"}
    jobs = {"load": {"schedule": "inbox", "spark": {"application": "job.py"}}}
    document = {"assets": {"inbox": {"uri": f"file://{tmp_path}/inbox", "watchers": {"files": files}}}, "jobs": jobs}
    with Daemons(tmp_path, document, database_url) as running:
        yield running


ELSEWHERE = rf"no daemon has run here yet; a process elsewhere leads with the same database \(heartbeat of {MOMENT}\)"
ASK = r": ask it \(`--url`\)"


def status(daemons: Daemons, *, exits: int = 1, home: str = "home") -> dict[str, Any]:
    environment = {"WATCHER_SETTINGS__HOME": str(daemons.home / home)}
    words = ["status", "-c", str(daemons.configuration), "--json"]
    result = CliRunner().invoke(app, words, env=environment)
    assert result.exit_code == exits, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def check(answer: dict[str, Any], daemon: str, sentence: str) -> None:
    assert (answer["daemon"], answer["warnings"]) == (daemon, [])
    (problem,) = answer["problems"]
    assert re.fullmatch(sentence, problem), problem


@on_both
def test_status_says_that_no_daemon_has_run_that_one_starts_and_that_one_was_stopped(daemons: Daemons) -> None:
    home = daemons.home / "home"
    check(status(daemons), "never", NEVER)
    check(status(daemons), "never", NEVER)  # its own traces are none of a daemon
    with open_home(home):  # of a daemon whose start is refused
        check(status(daemons), "starting", STARTING)
    check(status(daemons), "never", NEVER)
    daemons.start()
    until(daemons.is_ready)
    running = status(daemons, exits=0)
    assert (running["daemon"], running["problems"]) == (daemons.address, [])
    assert daemons.stop() == 0
    check(status(daemons), "stopped", STOPPED)
    with open_home(home):  # of a daemon whose start is refused
        check(status(daemons), "starting", STARTING)
    check(status(daemons), "stopped", STOPPED)


@on_both
def test_status_says_that_a_daemon_was_killed(daemons: Daemons) -> None:
    daemons.start()
    until(daemons.is_ready)
    daemons.stop(signal.SIGKILL)
    check(status(daemons), "stopped", KILLED)


@on_both
def test_a_home_of_a_version_that_kept_no_stages_had_a_daemon(daemons: Daemons) -> None:
    (daemons.home / "home").mkdir(mode=0o700)
    (daemons.home / "home" / "address").write_text("http://127.0.0.1:1")
    check(status(daemons), "stopped", "the daemon that ran here has stopped; start `watcher run`")


@on_both
def test_a_daemon_elsewhere_is_named_with_the_number_of_the_problems_that_its_database_knows(daemons: Daemons) -> None:
    def is_said(sentence: str) -> bool:
        answer = status(daemons, home="another")
        return answer["daemon"] == "never" and any(re.fullmatch(sentence, each) for each in answer["problems"])

    daemons.start()
    until(daemons.is_ready)
    until(lambda: is_said(f"{ELSEWHERE}{ASK}"))
    (daemons.home / "new").write_text("x")
    (daemons.home / "new").rename(daemons.home / "inbox" / "a.csv")  # its run fails: the job has no application
    until(lambda: is_said(f"{ELSEWHERE}, and 1 problem is known{ASK}"))
    assert daemons.stop() == 0
    until(lambda: is_said(NEVER))


HEARTBEAT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("last", "is_elsewhere"),
    [
        (None, True),
        (Life(stage="stopped", since=HEARTBEAT - timedelta(minutes=2)), True),
        (Life(stage="stopped", since=HEARTBEAT - timedelta(seconds=30)), False),
        (Life(stage="stopped", since=None), False),
        (Life(stage="running", since=HEARTBEAT - timedelta(days=1)), False),
    ],
    ids=["never", "stopped long before", "stopped just then", "of an older version", "killed"],
)
def test_a_heartbeat_that_may_be_of_this_home_is_no_daemon_elsewhere(last: Life | None, is_elsewhere: bool) -> None:
    health = {"scheduler": {"status": "healthy", "latest_scheduler_heartbeat": HEARTBEAT.isoformat()}}
    answers = Answers(health=health, readiness={}, watchers=[], listed=None, silences=[])
    assert leads_elsewhere(answers, last) is is_elsewhere
    answers.health = {"scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": HEARTBEAT.isoformat()}}
    assert not leads_elsewhere(answers, last)
