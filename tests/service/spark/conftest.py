import os
import sys
from collections.abc import Iterator

import pytest

from tests.service.spark.cluster import Cluster, running_cluster
from tests.unit.submit.fixtures import new_try, switchboard
from watcher.submit.class_archive import archive_folder, make_archive
from watcher.submit.runtime import find_runtime

__all__ = ["new_try", "switchboard"]


@pytest.fixture(scope="session", autouse=True)
def _class_archive() -> None:
    """What `make setup` has made, unless Java or Spark changed since: starts are quicker with it."""
    make_archive(archive_folder(os.environ), find_runtime(sys.executable, None, os.environ), os.environ)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found
