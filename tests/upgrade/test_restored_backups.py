"""A backup is restored: positions go back, and later events are emitted again, never silently, unless a person prevents it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.backups import BackedUp, backed_up
from tests.e2e.watching import kill_what_mentions
from tests.torture.daemons import until
from tests.upgrade.releases import ROOT, World, told
from watcher.host.home import Home

pytestmark = [pytest.mark.service, pytest.mark.slow]


def warnings(api: httpx.Client) -> list[str]:
    """Return the warnings about backups: a busy machine may cause others."""
    return [warning for warning in api.get("/readyz").json()["warnings"] if "backup" in warning]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder. At its end its jobs are killed: they would wait for a daemon that never comes back."""
    yield tmp_path
    kill_what_mentions(tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def restorable(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[World, BackedUp]]:
    with backed_up(request.param, folder) as database:
        yield World(folder=folder, database=database.url), database


def newest_event(api: httpx.Client) -> int:
    listed = api.get("/api/v2/assets/events", params={"limit": 1000}).raise_for_status().json()["asset_events"]
    return max(int(event["id"]) for event in listed)


def has_looked(api: httpx.Client, watcher: str) -> bool:
    watchers = api.get("/api/v2/watchers").raise_for_status().json()["watchers"]
    return any(row["name"] == watcher and row["lag_seconds"] is not None for row in watchers)


def tell(world: World, name: str, posts: int = 0) -> None:
    """Write a file that a daemon emits and remembers, with events that a person posts. Then the daemon is killed."""
    with world.running() as api:
        known = len(told(api, "inbox"))
        world.put(name)
        until(lambda: len(told(api, "inbox")) == known + 1)
        (numbers,) = api.get("/api/v2/assets", params={"name_prefix_pattern": "numbers"}).json()["assets"]
        for _ in range(posts):
            api.post("/api/v2/assets/events", json={"asset_id": numbers["id"]}).raise_for_status()
        newest = newest_event(api)
        until(lambda: Home(folder=world.folder / "home", id="").newest_event() >= newest)
        assert warnings(api) == []


def test_events_emitted_again_after_a_restore_are_announced(restorable: tuple[World, BackedUp]) -> None:
    world, database = restorable
    tell(world, "a")
    database.back_up()
    tell(world, "b", posts=3)
    database.restore()
    with world.running() as api:
        until(lambda: told(api, "inbox") == ["a.csv", "b.csv"])
        [warning] = warnings(api)
        again = r"about \d+ events since then are emitted again \((\S+ \d+, )*file\.new_files 1[,)]"
        assert re.search(rf"a backup was restored\. {again}.*; about \d+ are not \(REST 3[,)]", warning), warning
    assert '"event": "database.restored"' in (world.folder / "daemon.log").read_text()
    with world.running() as api:
        assert warnings(api) == [], "said once: the home knows this database now"


def test_nothing_is_emitted_again_if_a_person_moves_the_positions_first(restorable: tuple[World, BackedUp]) -> None:
    world, database = restorable
    tell(world, "a")
    database.back_up()
    tell(world, "b")
    database.restore()
    words = [sys.executable, "-m", "watcher", "rewind", "inbox_files", "--to", "now", "--yes"]
    subprocess.run(
        [*words, "-c", world.folder / "watchers.yaml"], cwd=ROOT, env=dict(os.environ), check=True, capture_output=True
    )
    with world.running() as api:
        until(lambda: has_looked(api, "inbox_files"))
        world.put("c")
        until(lambda: "c.csv" in told(api, "inbox"))
        assert told(api, "inbox") == ["a.csv", "c.csv"]
