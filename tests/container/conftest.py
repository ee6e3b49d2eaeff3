"""The image, built once for all of these tests, from a base that is made here because there may be no registry."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.container.engine import BASE, BUILD, ROOT, podman
from tests.servers import PostgresDatabase, running_postgres

_PROGRAMS = ("podman", "debootstrap")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    reason = f"{' and '.join(missing)} missing: apt-get install podman buildah runc debootstrap"
    if os.geteuid() != 0:
        reason, missing = "building a base and limiting containers needs root", ["root"]
    for item in items:
        if missing and item.path.is_relative_to(ROOT / "tests" / "container"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the image. The first test process that needs it builds it. WATCHER_TEST_IMAGE names one built before."""
    given = os.environ.get("WATCHER_TEST_IMAGE")
    if given is not None:
        return given
    name, shared = "localhost/asset-watcher:test", tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    built = shared / "image-built"
    with (shared / "image-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            build(name)
            built.touch()
    return name


def build(name: str) -> None:
    subprocess.run(["tools/image/base", BASE], cwd=ROOT, check=True)
    environment = {**os.environ, "ENGINE": "podman"}
    words = ["tools/image/build", name, *BUILD, f"--build-arg=BASE={BASE}"]
    built = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, (built.stdout + built.stderr)[-4_000:]


@pytest.fixture(scope="session", autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    if shutil.which("podman"):
        podman("image", "prune", "--force", code=None)


@pytest.fixture
def database() -> Iterator[PostgresDatabase]:
    """A database of a PostgreSQL beside the containers, which reach it by the loopback."""
    with running_postgres() as server, server.database() as database:
        yield database
