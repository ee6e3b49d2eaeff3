import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.spark.cluster import Cluster, running_cluster
from tests.unit.submit.fixtures import new_try, switchboard
from watcher.submit import archive_building

__all__ = ["new_try", "switchboard"]


@pytest.fixture(scope="session")
def class_archives(request: pytest.FixtureRequest) -> Path:
    """A folder with the class archive of this machine's Java and Spark, kept from session to session: it takes a while."""
    assert request.config.cache is not None
    folder = Path(request.config.cache.mkdir("class-archives"))
    program = [sys.executable, "-m", archive_building.__name__, str(folder)]
    made = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)
    assert (made.returncode, made.stdout) == (0, "")
    assert {file.suffix for file in folder.iterdir()} == {".jsa"}, "something was left behind"
    return folder


@pytest.fixture(autouse=True)
def _quick_starts(class_archives: Path, tmp_path: Path) -> None:
    """Both folders are somebody's home."""
    for home in (tmp_path, tmp_path / "home"):
        home.mkdir(exist_ok=True)
        (home / "cds").symlink_to(class_archives)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found
