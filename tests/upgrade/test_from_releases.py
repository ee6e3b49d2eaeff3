"""An earlier version is killed in the middle of its work, and this program goes on: nothing is lost, repeated or left undone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from tests.effort import PATIENCE
from tests.servers import running_postgres
from tests.torture.daemons import until
from tests.upgrade.releases import RELEASES, Release, World, entries, runs, told, versions

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(params=RELEASES, ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture
def packages(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return release.packages(tmp_path_factory.mktemp("packages"))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the commit of {release} ({release.commit}) is not in the history that was fetched")


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path, release: Release):
    if request.param == "sqlite":
        yield World(folder=tmp_path, database=None, release=release)
        return
    with running_postgres() as server, server.database() as database:
        yield World(folder=tmp_path, database=database.sqlalchemy_url, release=release)


def test_this_version_goes_on_where_an_earlier_one_was_killed(world: World, packages: Path) -> None:
    with world.running("--upgrade", packages=packages) as first:
        world.work(first)
        before = versions(first)
        loaded = entries(first, "loaded")
    world.put("c")  # while no daemon runs
    with world.running("--upgrade") as api:
        until(lambda: len(runs(api, "load", "success")) == 3)
        assert told(api, "inbox") == ["a.csv", "b.csv", "c.csv"]
        assert entries(api, "loaded").items() >= loaded.items()
        assert versions(api)["inbox_files"] == before["inbox_files"] + 1

        world.go.touch()  # the driver of the earlier version, with its SDK
        until(lambda: runs(api, "slow", "success"))
        [slow] = runs(api, "slow")
        [instance] = api.get(f"/api/v2/dags/slow/dagRuns/{slow['dag_run_id']}/taskInstances").json()["task_instances"]
        assert (instance["try_number"], instance["state"]) == (1, "success"), "it was followed, not started again"
        assert entries(api, "slow") == {"began": slow["dag_run_id"], "numbers": 1}

        until(lambda: runs(api, "both", "success"))
        [both] = runs(api, "both")
        assert entries(api, "loaded")[both["dag_run_id"]] == ["a.csv", "b.csv", "c.csv"]
        assert runs(api, "held") == [], "it is still paused"
        api.patch("/api/v2/dags/held", json={"is_paused": False}, timeout=PATIENCE).raise_for_status()
        until(lambda: runs(api, "held", "success"))
        [held] = runs(api, "held")
        assert entries(api, "loaded")[held["dag_run_id"]] == ["a.csv", "b.csv", "c.csv"]
        if world.release.has_partitions:
            the_second_day_is_one_run(world, api)


def the_second_day_is_one_run(world: World, api: httpx.Client) -> None:
    """The half of a day that an earlier version had queued goes with the half that comes now; the first day stays as it was."""
    assert len(runs(api, "daily")) == 1
    world.put("g", "days/dt=2/region=us")
    until(lambda: len(runs(api, "daily", "success")) == 2)
    second, _ = sorted(runs(api, "daily"), key=lambda run: run["partition_key"], reverse=True)
    assert second["partition_key"] == "2"
    assert entries(api, "loaded")[second["dag_run_id"]] == ["f.csv", "g.csv"]
