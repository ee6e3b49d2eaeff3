"""Each way to sign in, at Kubernetes' own API server over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from ssl import SSLCertVerificationError

import aiohttp
import pytest

from tests.kubernetes_api import ADMIN, KubernetesApi, running_api
from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.cluster import Cluster
from watcher.features.kubernetes.refusals import ApiRefused

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_api(tmp_path_factory.mktemp("kubernetes")) as api:
        yield api


async def reads(cluster: Cluster) -> None:
    async with cluster.connection() as connection:
        assert await PodApi(connection, "default").read("pods", "x") is None


async def test_a_token(real: KubernetesApi) -> None:
    await reads(Cluster(server=real.address, authority=real.authority.read_bytes(), token=ADMIN))


async def test_a_client_certificate(real: KubernetesApi) -> None:
    certificate, key = ((real.folder / f"client.{kind}").read_bytes() for kind in ("crt", "key"))
    authority = real.authority.read_bytes()
    await reads(Cluster(server=real.address, authority=authority, certificate=certificate, key=key))


async def test_a_token_that_is_rotated_in_its_file(real: KubernetesApi, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("expired\n")
    cluster = Cluster(server=real.address, authority=real.authority.read_bytes(), token_file=file)
    async with cluster.connection() as connection:
        api = PodApi(connection, "default")
        with pytest.raises(ApiRefused, match="401"):
            await api.read("pods", "x")
        file.write_text(f"{ADMIN}\n")
        assert await api.read("pods", "x") is None


async def test_a_server_whose_certificate_no_authority_signed_is_not_trusted(real: KubernetesApi) -> None:
    with pytest.raises(aiohttp.ClientConnectorError) as failed:
        await reads(Cluster(server=real.address, token=ADMIN))
    assert isinstance(_root(failed.value), SSLCertVerificationError)


def _root(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error
