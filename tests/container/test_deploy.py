"""The daemon of the compose file works, as far as testable without a registry of images."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.container.engine import ROOT, podman
from tests.effort import PATIENCE
from tests.servers import PostgresDatabase, fresh_bucket, running_s3
from watcher.host.machine import program_version
from watcher.shared.servers import free_port

pytestmark = pytest.mark.container

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def released(image: str) -> Iterator[str]:
    """Give the image the name that deploy/ uses."""
    name = f"localhost/asset-watcher:{program_version()}"
    podman("tag", image, name)
    yield name
    podman("untag", image, name, code=None)  # without a name after it, all names of the image are removed


def until(condition: Callable[[], bool], log: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, log()
        time.sleep(0.5)


def states(container: str, job: str) -> list[str]:
    """Return the states of a job's runs, from commands in the container."""
    token = podman("exec", container, "watcher", "token", "create", "--subject", "me", "--role", "viewer", code=None)
    answer = podman(
        *("exec", f"--env=WATCHER_TOKEN={token.stdout.strip()}", container),
        *("watcher", "runs", "list", job, "--json"),
        code=None,
    )
    return [run["state"] for run in json.loads(answer.stdout)] if answer.returncode == 0 else []


def logs(container: str) -> str:
    answer = podman("logs", container, code=None)
    return answer.stdout + answer.stderr


@pytest.fixture
def override(tmp_path: Path, database: PostgresDatabase) -> Iterator[Path]:
    """A compose file that replaces the services whose images come from a registry."""
    with running_s3() as storage, fresh_bucket(storage):
        storage.client.create_bucket(Bucket="landing")
        storage.client.create_bucket(Bucket="warehouse")
        storage.client.put_object(Bucket="landing", Key="orders/a.json", Body=b'{"id": 1, "customer": "ada"}\n')
        service = {
            "network_mode": "host",
            "ulimits": {"nofile": 4096, "nproc": 8192},
            "environment": {
                "WATCHER_SETTINGS__API__PORT": str(free_port()),
                "WATCHER_SETTINGS__DATABASE__URL": database.sqlalchemy_url,
                "LAKE_ENDPOINT": storage.endpoint,
                "LAKE_KEY": storage.access_key,
                "LAKE_SECRET": storage.secret_key,
                "SHOP_DSN": database.dsn,
            },
        }
        path = tmp_path / "override.yaml"
        path.write_text(json.dumps({"services": {"watcher": service}}))
        yield path


def test_the_daemon_of_the_compose_file_loads_a_file_from_s3(released: str, override: Path) -> None:
    del released
    files = ("--file", str(DEPLOY / "compose.yaml"), "--file", str(override))
    words = [sys.executable, "-m", "podman_compose", *files]
    container = "asset-watcher_watcher_1"
    try:
        started = subprocess.run(
            [*words, "up", "--detach", "--no-deps", "watcher"], capture_output=True, text=True, check=False
        )
        assert started.returncode == 0, started.stdout + started.stderr
        until(lambda: states(container, "load_orders") == ["success"], lambda: logs(container))
    finally:
        podman("rm", "--force", "--time=0", container, code=None)
        for volume in ("watcher", "scratch"):
            podman("volume", "rm", "--force", f"asset-watcher_{volume}", code=None)
