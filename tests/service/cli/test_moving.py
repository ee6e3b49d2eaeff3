"""`watcher poll --dry-run` and `watcher rewind` work on a real folder without a daemon."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import anyio
import pytest
import typer.testing
from sqlalchemy import select, update
from typer.testing import CliRunner

from config.reading.loader import load
from store.catalog import catalog_sync
from store.database import Database, sqlite_url
from store.database.schema import asset_store_history, watcher_position
from store.detection import positions
from tests.features import DECLARATIONS
from triggers.hosting import UNRESOLVED
from watcher.cli.app import app
from watcher.configuration.declarations import declared
from watcher.configuration.vocabulary import vocabulary

CONFIGURATION = """
version: 1
settings: {api: {auth: none}}
assets:
  inbox:
    watchers:
      inbox_files: {trigger: file.new_files, path: inbox, match: "*.csv", start: all, min_age: 0s}
jobs:
  load: {schedule: inbox, spark: {application: load.py}}
"""


@pytest.fixture
def configuration(tmp_path) -> Path:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "load.py").touch()
    path = tmp_path / "watchers.yaml"
    path.write_text(CONFIGURATION)
    anyio.run(partial(apply, path, tmp_path / ".watcher" / "watcher.db"))
    return path


async def apply(path: Path, database: Path) -> None:
    """Leave the database as a daemon does that never polled."""
    async with Database.open(sqlite_url(database)) as opened, opened.transaction() as session:
        await catalog_sync.apply(session, declared(load(path, vocabulary(), os.environ), DECLARATIONS), opened.dialect)
        await positions.claim(session, "inbox_files", "somebody", opened.dialect)
        await positions.release(session, "somebody")


async def leave_findings(database: Path) -> None:
    state = {"m": 7, UNRESOLVED: [{}, {}]}
    async with Database.open(sqlite_url(database)) as opened, opened.transaction() as session:
        await session.execute(update(watcher_position).values(state=json.dumps(state)))


def watcher(configuration, *words):
    return CliRunner().invoke(app, [*words, "-c", str(configuration)])


def test_a_dry_run_counts_the_files_and_the_runs_that_would_follow(configuration):
    (configuration.parent / "inbox" / "a.csv").write_text("1")
    (configuration.parent / "inbox" / "b.csv").write_text("2")
    found = json.loads(watcher(configuration, "poll", "inbox_files", "--dry-run", "--json").stdout)
    assert (found["items"], found["events"], found["runs"]) == (2, 1, {"load": 1})
    assert len(found["shown"][0]["files"]) == 2


def test_a_manual_poll_requires_dry_run(configuration):
    refused = watcher(configuration, "poll", "inbox_files")
    assert refused.exit_code == 2
    assert "--dry-run" in refused.stderr


def test_a_rewind_can_be_previewed_done_and_undone_once(configuration):
    (configuration.parent / "inbox" / "a.csv").write_text("1")
    preview = json.loads(watcher(configuration, "rewind", "inbox_files", "--to", "start", "--preview", "--json").stdout)
    assert preview["items"] == 1
    done = watcher(configuration, "rewind", "inbox_files", "--to", "start", "--json")
    assert json.loads(done.stdout)["version"] == 1
    undone = watcher(configuration, "rewind", "inbox_files", "--undo")
    assert (undone.exit_code, "nothing was emitted meanwhile" in undone.stdout) == (0, True)
    again = watcher(configuration, "rewind", "inbox_files", "--undo")
    assert again.exit_code == 5
    assert "no rewind to undo" in again.stderr


@pytest.mark.parametrize(("given", "moved"), [("y\n", True), ("n\n", False), ("", False)])
def test_on_a_terminal_a_rewind_asks_for_confirmation(configuration, monkeypatch, given, moved):
    (configuration.parent / "inbox" / "a.csv").write_text("1")
    monkeypatch.setattr(typer.testing._NamedTextIOWrapper, "isatty", lambda _: True)
    words = ("rewind", "inbox_files", "--to", "start", "-c", str(configuration))
    asked = CliRunner().invoke(app, words, input=given)
    assert "also those that were seen before: 1, in so many events: 1." in asked.stderr
    assert "Runs that follow where nothing else is waited for: 1 of load." in asked.stderr
    assert (asked.exit_code == 0, "goes on from" in asked.stdout) == (moved, moved)
    assert ("Aborted" in asked.stderr) is not moved
    sure = CliRunner().invoke(app, [*words, "--yes"])
    assert (sure.exit_code, "Rewind?" in sure.stderr) == (0, False)


def test_a_place_that_does_not_exist_is_refused_in_one_sentence(configuration):
    refused = watcher(configuration, "rewind", "inbox_files", "--to", "the day before")
    assert refused.exit_code == 2
    assert "the day before" in refused.stderr


@pytest.mark.parametrize("words", [("rewind", "inbox_files"), ("rewind", "inbox_files", "--to", "now", "--undo")])
def test_a_rewind_requires_a_place_or_undo(configuration, words):
    refused = watcher(configuration, *words)
    assert (refused.exit_code, "--to, or --undo" in refused.stderr) == (2, True)


# --- another name


async def entries(database: Path) -> list[tuple[str, str | None, str | None]]:
    """Return key, watcher and actor of every row of the history, oldest first."""
    h = asset_store_history.c
    async with Database.open(sqlite_url(database)) as opened, opened.reading() as session:
        found = await session.execute(select(h.key, h.watcher, h.actor).order_by(h.written_at, h.deleted.desc()))
        return [tuple(row) for row in found]


def test_a_watcher_continues_under_another_name(configuration):
    assert watcher(configuration, "rewind", "inbox_files", "--to", "start").exit_code == 0
    before = json.loads(watcher(configuration, "watchers", "show", "inbox_files", "--json").stdout)
    configuration.write_text(CONFIGURATION.replace("inbox_files", "arrivals"))

    renamed = watcher(configuration, "watchers", "rename", "inbox_files", "arrivals")

    assert (renamed.exit_code, "arrivals goes on from" in renamed.stdout) == (0, True), renamed.stderr
    database = configuration.parent / ".watcher" / "watcher.db"
    anyio.run(partial(apply, configuration, database))
    after = json.loads(watcher(configuration, "watchers", "show", "arrivals", "--json").stdout)
    assert after["watermark"] == before["watermark"]
    assert after["position_version"] == before["position_version"] + 1
    kept = json.loads(watcher(configuration, "store", "list", "inbox", "--json").stdout)
    assert [entry["key"] for entry in kept] == ["arrivals.watermark"]
    history = anyio.run(partial(entries, database))
    assert [key for key, _, _ in history] == ["inbox_files.watermark"] * 2 + ["arrivals.watermark"]
    assert all(actor and not watched for _, watched, actor in history)


@pytest.mark.parametrize(
    ("old", "new", "status", "words"),
    [
        ("inbox_files", "arrivals", 4, "no watcher 'arrivals' is configured"),
        ("inbox_files", "inbox_files", 5, "inbox_files is still configured"),
        ("before", "inbox_files", 4, "'before' has left no position"),
    ],
)
def test_a_refused_rename_is_explained_in_one_sentence(configuration, old, new, status, words):
    refused = watcher(configuration, "watchers", "rename", old, new)

    assert (refused.exit_code, words in refused.stderr) == (status, True), refused.stderr


def test_findings_that_stand_until_somebody_has_read_them_are_resolved_once(configuration):
    anyio.run(leave_findings, configuration.parent / ".watcher" / "watcher.db")
    done = watcher(configuration, "watchers", "resolve", "inbox_files")
    assert (done.exit_code, done.stdout) == (0, "inbox_files: 2 resolved\n")
    refused = watcher(configuration, "watchers", "resolve", "inbox_files")
    assert (refused.exit_code, "has no finding" in refused.stderr) == (5, True)
    assert "no watcher" in watcher(configuration, "watchers", "resolve", "nobody").stderr
