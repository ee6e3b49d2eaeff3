"""The image works as it is deployed: without rights, killed, stopped, split by roles, on volumes of other accounts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import loopback
from tests.container.engine import HARDENED, ROOT, STRANGER, Container, Volume, inspected, once
from tests.effort import PATIENCE
from tests.servers import PostgresDatabase

pytestmark = pytest.mark.container

KILLED = 137


@pytest.fixture
def quickstart(tmp_path: Path) -> Path:
    """The example, in a folder to which any account may write, because its job writes there."""
    folder = Path(shutil.copytree(ROOT / "examples" / "quickstart", tmp_path / "quickstart"))
    shutil.rmtree(folder / ".watcher", ignore_errors=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)
    tmp_path.chmod(0o755)
    for parent in (*tmp_path.parents,):
        parent.chmod(parent.stat().st_mode | 0o001)
    return folder


@pytest.fixture
def volume() -> Iterator[str]:
    with Volume() as volume:
        yield volume.name


def client(container: Container) -> httpx.Client:
    """Return a client whose token is made as in the second line of the docs."""
    token = container.exec("watcher", "token", "create", "--subject", "me", "--role", "admin")
    return httpx.Client(base_url=container.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)


def runs(api: httpx.Client, state: str) -> list[dict[str, Any]]:
    listed = api.get("/api/v2/dags/load_orders/dagRuns").raise_for_status().json()["dag_runs"]
    assert [run for run in listed if run["state"] == "failed"] == []
    return [run for run in listed if run["state"] == state]


def paths(api: httpx.Client) -> list[str]:
    """Return the path of each emitted file, once for each event that has it."""
    events = api.get("/api/v2/assets/events?name_pattern=inbox").raise_for_status().json()["asset_events"]
    return sorted(Path(file["path"]).name for event in events for file in event["extra"].get("files", ()))


def test_the_quickstart_works_without_rights_and_survives_a_kill_and_a_stop(
    image: str, quickstart: Path, volume: str
) -> None:
    mounts = (f"--volume={quickstart}:/etc/watcher", f"--volume={volume}:/var/lib/watcher")
    flags = (*HARDENED, *STRANGER, *mounts)
    with Container(image, flags=flags) as first:
        first.until_ready()
        assert first.is_healthy()
        assert first.exec("id", "-u") == "1234567"
        first.exec("grep", "1234567", "/etc/passwd", code=1)
        with client(first) as api:
            first.until(lambda: len(runs(api, "success")) == 1)
        (quickstart / "inbox" / "tuesday.csv").write_text("id,customer,amount\n4,barbara,3.75\n")
        with client(first) as api:
            first.until(lambda: runs(api, "running") or len(runs(api, "success")) == 2)
        first.kill()
    with Container(image, flags=flags) as second:
        second.until_ready()
        with client(second) as api:
            second.until(lambda: len(runs(api, "success")) == 2)
            (quickstart / "inbox" / "wednesday.csv").write_text("id,customer,amount\n5,ada,1\n")
            second.until(lambda: runs(api, "running") or len(runs(api, "success")) == 3)
            assert paths(api) == ["monday.csv", "tuesday.csv", "wednesday.csv"]
        assert second.stop() == 0, second.log()
    with Container(image, flags=flags) as third:
        third.until_ready()
        with client(third) as api:
            third.until(lambda: len(runs(api, "success")) == 3)
            assert paths(api) == ["monday.csv", "tuesday.csv", "wednesday.csv"]
        assert third.stop() == 0, third.log()
    assert len({*quickstart.glob("orders/run_id=*")}) == 3, "each run's partition, once"


def test_roles_work_in_containers_of_their_own_beside_a_postgresql(
    image: str, quickstart: Path, database: PostgresDatabase
) -> None:
    environment = {
        "WATCHER_SETTINGS__DATABASE__URL": database.sqlalchemy_url,
        "WATCHER_SETTINGS__API__SECRET": "s" * 32,
        "WATCHER_SETTINGS__API__BASE_URL": "http://127.0.0.1:1",  # no job starts
    }
    mount = f"--volume={quickstart}:/etc/watcher:ro"
    flags = (*HARDENED, *STRANGER, mount)
    given = tuple(f"--env={name}={value}" for name, value in environment.items())
    assert "at revision none" in once(image, "run", flags=(*flags, *given), code=1).stderr
    once(image, "db", "upgrade", flags=(*flags, *given))
    with (
        Container(image, "run", "--roles", "triggerer", flags=flags, environment=environment) as triggerer,
        Container(image, "run", "--roles", "api", flags=flags, environment=environment) as api,
    ):
        for container in (triggerer, api):
            container.until_ready()
            assert container.is_healthy()
        assert "watcher_ready 1.0" in loopback.get(f"{triggerer.url}/metrics").text
        assert loopback.get(f"{triggerer.url}/api/v2/assets").status_code == 404
        with client(api) as reader:
            api.until(lambda: paths(reader) == ["monday.csv"])
        assert (triggerer.stop(), api.stop()) == (0, 0)


def test_a_health_check_fails_where_nobody_answers(image: str, quickstart: Path) -> None:
    mount = f"--volume={quickstart}:/etc/watcher:ro"
    with Container(image, "600", flags=(mount, "--entrypoint=sleep")) as container:
        container.exec("true")
        assert not container.is_healthy()


@pytest.mark.parametrize("user", ["4242:4242", "0:0"], ids=["another group", "root"])
def test_a_fresh_volume_belongs_to_the_first_account_that_uses_it(
    image: str, quickstart: Path, volume: str, user: str
) -> None:
    flags = (f"--user={user}", f"--volume={volume}:/var/lib/watcher", f"--volume={quickstart}:/etc/watcher:ro")
    once(image, "db", "upgrade", flags=flags)


def test_a_home_of_another_account_is_refused_in_one_sentence(image: str, quickstart: Path, volume: str) -> None:
    mounts = (f"--volume={volume}:/var/lib/watcher", f"--volume={quickstart}:/etc/watcher:ro")
    once(image, "db", "upgrade", flags=("--user=4242:0", *mounts))
    answer = once(image, flags=("--user=4343:0", *mounts), code=1)
    assert "settings.home /var/lib/watcher/home cannot be used" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_shutdown_takes_less_than_the_ten_seconds_of_a_stop(image: str) -> None:
    environment = dict(word.split("=", 1) for word in inspected("image", image)["Config"]["Env"])
    assert environment["WATCHER_SETTINGS__TRIGGERER__GRACE"] == "8s"
