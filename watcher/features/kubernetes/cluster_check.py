"""Refuses to start with another cluster or namespace while drivers run in the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anyio.to_thread import run_sync

from config.features.kubernetes.settings import KubernetesPart, KubernetesSettings
from config.models.settings import Settings
from store.database import Database
from store.processes import clusters
from store.processes.clusters import ClusterPlace
from watcher.errors import StartRefused
from watcher.host.metadata import patiently
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.cluster import NoCluster
from watcher.submit.kubernetes.submitter import cluster_of

SUBMITTER: Final = "kubernetes"


async def check_at_start(database: Database, settings: Settings, environment: Mapping[str, str]) -> None:
    """Check the cluster that the settings name. Raises `StartRefused`."""
    kubernetes = settings.part(KubernetesPart).kubernetes
    assert kubernetes is not None  # noqa: S101  without it the feature is not configured
    await check_cluster(database, kubernetes, environment)


async def check_cluster(database: Database, settings: KubernetesSettings, environment: Mapping[str, str]) -> None:
    """Record where drivers run. Raises `StartRefused`. A cluster that does not answer now is known by its address."""
    try:
        cluster = await run_sync(cluster_of, settings, environment)
        async with cluster.connection() as connection:
            uid = await _uid(PodApi(connection, settings.namespace))
    except (NoCluster, OSError, ValueError) as error:
        raise StartRefused(f"settings.kubernetes: {error}") from error
    place = ClusterPlace(server=cluster.server, namespace=settings.namespace, uid=uid)

    async def settle() -> tuple[ClusterPlace, int] | None:
        async with database.transaction() as connection:
            return await clusters.settle(connection, place, SUBMITTER)

    if (forbidden := await patiently(settle)) is not None:
        before, count = forbidden
        tries = "1 try is" if count == 1 else f"{count} tries are"
        raise StartRefused(
            f"settings.kubernetes names {place.server}, namespace {place.namespace}, and {tries} open at {before.server}, "
            f"namespace {before.namespace}: put that back until they have ended"
        )


async def _uid(api: PodApi) -> str | None:
    try:
        return await api.cluster_id()
    except OSError:
        return None
