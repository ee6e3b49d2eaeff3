"""`watcher reconcile` without a daemon: its answer, and its exit code."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import update
from typer.testing import CliRunner

from store.database import Database, sqlite_url
from store.database.schema import watcher_position
from tests.service.cli.test_moving import configuration as configuration  # noqa: PLC0414  a fixture
from watcher.cli.app import app


def reconcile(configuration: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["reconcile", *words, "-c", str(configuration)])


async def pass_over_everything(database: Path) -> None:
    """Leave a position that has handled all files, although no event names one."""
    state = json.dumps({"horizon": "2999-01-01T00:00:00Z"})
    async with Database.open(sqlite_url(database)) as opened, opened.transaction() as session:
        await session.execute(update(watcher_position).values(state=state, source_identity="{}"))


def test_a_lost_file_ends_with_1_and_what_waits_does_not(configuration: Path) -> None:
    inbox = configuration.parent / "inbox"
    for name in ("a.csv", "b.csv", "c.txt"):
        (inbox / name).write_text("1")
    waits = reconcile(configuration, "inbox_files", "--json")
    assert waits.exit_code == 0, waits.stderr
    result = json.loads(waits.stdout)
    assert (result["source"], result["reported"], result["loaded"], result["differences"]["waiting"]) == (2, 0, 0, 2)
    assert (result["exact"], result["why_not"]) == (False, "the watcher has no position yet")

    anyio.run(partial(pass_over_everything, configuration.parent / ".watcher" / "watcher.db"))
    lost = reconcile(configuration, "inbox_files", "--limit", "1")
    assert lost.exit_code == 1
    assert "not_reported" in lost.stdout
    assert str(inbox / "a.csv") in "".join(lost.stdout.split())
    assert not [*(configuration.parent / ".watcher").glob(".reconcile-*")]


def test_a_watcher_that_is_not_there_is_named(configuration: Path) -> None:
    refused = reconcile(configuration, "nobody")
    assert (refused.exit_code, "nobody" in refused.stderr) == (4, True)
