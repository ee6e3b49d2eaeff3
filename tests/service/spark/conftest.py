from collections.abc import Iterator

import pytest

from tests.service.spark.cluster import Cluster, running_cluster
from tests.unit.submit.fixtures import new_try, switchboard

__all__ = ["new_try", "switchboard"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found
