"""Commands that change many things at once say on a terminal what would follow, and wait for a yes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
import typer.testing
from sqlalchemy import delete, insert, update
from typer.testing import CliRunner, Result

from config.reading.loader import load
from store.catalog import assets, catalog_sync
from store.database.asset_events import NewEvent
from store.database.schema import queued_event, run, run_asset_event
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from tests.features import DECLARATIONS
from watcher.cli.app import app
from watcher.cli.database import opened_database
from watcher.configuration.declarations import declared
from watcher.configuration.vocabulary import vocabulary
from watcher.features.replay.commands import meaning

pytestmark = pytest.mark.feature("replay")

CONFIGURATION = """
version: 1
settings: {api: {auth: none, port: 1}}
assets: {inbox: {}}
jobs:
  load: {schedule: inbox, spark: {application: load.py}}
"""
RANGE = ("--from", "2000-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z")
Watcher = Callable[..., Result]


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A file that is applied, with one event that no run consumed, and two runs that failed with one event each."""
    (tmp_path / "load.py").touch()
    path = tmp_path / "watchers.yaml"
    path.write_text(CONFIGURATION)
    anyio.run(_filled, path)
    return path


async def _filled(path: Path) -> None:
    loaded = load(path, vocabulary(), {})
    async with opened_database(loaded.settings) as database, database.transaction() as connection:
        await catalog_sync.apply(connection, declared(loaded, DECLARATIONS), database.dialect)
        inbox = (await assets.ids_by_name(connection))["inbox"]
        new = [NewEvent(asset_id=inbox, extra="{}", trace_id=f"{number:032}") for number in range(3)]
        first, second, _ = (
            row[0] for row in (await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)).rows
        )
        now = datetime.now(UTC)
        for run_id, event_id in (("older", first), ("newer", second)):
            times = dict.fromkeys(("run_after", "queued_at", "start_date", "end_date"), now)
            of_run = {"run_type": "asset_triggered", "triggered_by": "asset", "conf": "{}", "trace_id": "0" * 32}
            row = {"dag_id": "load", "run_id": run_id, "state": "failed", **of_run, **times}
            await connection.execute(insert(run).values(row))
            consumed = {"dag_id": "load", "run_id": run_id, "event_id": event_id, "completed": True}
            await connection.execute(insert(run_asset_event).values(consumed))
            await connection.execute(delete(queued_event).where(queued_event.c.event_id == event_id))


async def _succeeded(path: Path) -> None:
    async with opened_database(load(path, vocabulary(), {}).settings) as database, database.transaction() as connection:
        await connection.execute(update(run).values(state="success"))


def watcher(configuration: Path, *words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, [*words, "-c", str(configuration)], input=given)


def states(configuration: Path) -> list[str]:
    return [each["state"] for each in json.loads(watcher(configuration, "runs", "list", "--json").stdout)]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.testing._NamedTextIOWrapper, "isatty", lambda _: True)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("given", "begun"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_replay_clears_no_run_that_has_succeeded_before_somebody_said_yes(
    configuration: Path, given: str, begun: bool
) -> None:
    anyio.run(_succeeded, configuration)
    asked = watcher(configuration, "replay", "load", *RANGE, given=given)
    assert "load gets the events from 2000-01-01T00:00:00Z to 2100-01-01T00:00:00Z again: 2." in asked.stderr
    assert "Consumed before: 2. Runs that run once more, those too that have succeeded: 2." in asked.stderr
    assert "Events that are left alone: 1 waiting." in asked.stderr
    assert (asked.exit_code == 0, "Aborted" in asked.stderr) == (begun, not begun)
    again = watcher(configuration, "replay", "load", *RANGE, given="y\n")
    assert (again.exit_code == 5) is begun, "a replay of this job goes on already"


NOTHING = ("--from", "2000-01-01T00:00:00Z", "--to", "2000-01-02T00:00:00Z")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "words", [(*RANGE, "--preview"), NOTHING, (*RANGE, "--yes")], ids=["preview", "nothing", "yes"]
)
def test_a_replay_with_yes_or_of_nothing_or_a_preview_does_not_ask(configuration: Path, words: tuple[str, ...]) -> None:
    done = watcher(configuration, "replay", "load", *words)
    assert (done.exit_code, "Replay?" in done.stderr) == (0, False)


@pytest.mark.usefixtures("terminal")
def test_several_failed_runs_are_named_before_they_run_again(configuration: Path) -> None:
    anyio.run(_succeeded, configuration)
    started = [json.loads(watcher(configuration, "runs", "start", "load", "--json").stdout) for _ in range(2)]
    older, newer = (each["dag_run_id"] for each in started)
    for run_id in (older, newer):
        watcher(configuration, "runs", "cancel", "load", run_id)
    refused = watcher(configuration, "runs", "retry", "--failed", "load", given="n\n")
    assert f"Failed runs of load that run again, the oldest first: 2.\nFrom {older}\nto {newer}." in refused.stderr
    assert (refused.exit_code, states(configuration)[:2]) == (1, ["failed", "failed"])
    for words in (("load", older), ("--failed", "load")):  # one run each, which asks nothing
        assert watcher(configuration, "runs", "retry", *words).exit_code == 0
    assert states(configuration)[:2] == ["queued", "queued"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("given", "left"), [("n\n", 1), ("y\n", 0)])
def test_queued_events_are_dropped_after_a_yes(configuration: Path, given: str, left: int) -> None:
    configuration.write_text(
        CONFIGURATION.replace("assets: {inbox: {}}", "assets: {inbox: {}, other: {}}").replace(
            "schedule: inbox", "schedule: other"
        )
    )
    anyio.run(_applied, configuration)
    asked = watcher(configuration, "jobs", "queue", "load", "--drop", given=given)
    assert "Events in the queue of load that its schedule does not wait for: 1. No run ever gets them." in asked.stderr
    queue = json.loads(watcher(configuration, "jobs", "queue", "load", "--json").stdout)
    assert (queue["kept"] > 0) is (left > 0)


async def _applied(path: Path) -> None:
    loaded = load(path, vocabulary(), {})
    async with opened_database(loaded.settings) as database, database.transaction() as connection:
        await catalog_sync.apply(connection, declared(loaded, DECLARATIONS), database.dialect)


def test_scripts_are_not_asked(configuration: Path) -> None:
    for words in (("replay", "load", *RANGE), ("runs", "retry", "--failed", "load")):
        done = watcher(configuration, *words)
        assert (done.exit_code, done.stderr) == (0, "")


def test_a_replay_says_what_it_leaves_alone_and_which_files_are_gone() -> None:
    answer = {
        "expected_count": 12,
        "queued": 2,
        "cleared": 10,
        "cleared_runs": 4,
        "outside_range": 3,
        "waiting": 1,
        "running": 0,
        "dropped": 5,
        "cleaned": 7,
        "superseded": 0,
        "jobs_behind": ["a", "b"],
        "forgotten": {"loaded": 6, "failed": 0, "unknown": 0},
    }
    assert meaning("load", "monday", "tuesday", answer).splitlines() == [
        "load gets the events from monday to tuesday again: 12.",
        "Queued, since no run of it has consumed them: 2.",
        "Consumed before: 10. Runs that run once more, those too that have succeeded: 4, which have 3 further events.",
        "A job that is not made for it does its work twice.",
        "Events that are left alone: 1 waiting, 5 dropped, 6 loaded by runs that are gone.",
        "Files that are not read again: 7 cleaned.",
        "Jobs that may run after it: a, b.",
    ]
