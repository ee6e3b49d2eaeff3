"""Version 0.1.0 is killed in the middle of its work, and this program goes on: nothing is lost, repeated or left undone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.effort import PATIENCE
from tests.servers import running_postgres
from tests.torture.daemons import until
from tests.upgrade.releases import COMMIT_OF_0_1_0, World, entries, runs, told, version_0_1_0, versions

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return version_0_1_0(tmp_path_factory.mktemp("first"))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the commit of 0.1.0 ({COMMIT_OF_0_1_0}) is not in the history that was fetched")


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "sqlite":
        yield World(folder=tmp_path, database=None)
        return
    with running_postgres() as server, server.database() as database:
        yield World(folder=tmp_path, database=database.sqlalchemy_url)


def test_this_version_goes_on_where_0_1_0_was_killed(world: World, packages: Path) -> None:
    with world.running("--upgrade", packages=packages) as first:
        world.work_of_0_1_0(first)
        before = versions(first)
        loaded = entries(first, "loaded")
    world.put("c")  # while no daemon runs
    with world.running("--upgrade") as api:
        until(lambda: len(runs(api, "load", "success")) == 3)
        assert told(api, "inbox") == ["a.csv", "b.csv", "c.csv"]
        assert entries(api, "loaded").items() >= loaded.items()
        assert versions(api)["inbox_files"] == before["inbox_files"] + 1

        world.go.touch()  # the driver of 0.1.0, with its SDK
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
