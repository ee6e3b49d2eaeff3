"""`watcher kubernetes`: what the cluster needs for drivers that run as pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, group, load_settings, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show

if TYPE_CHECKING:
    from config.features.kubernetes.settings import KubernetesSettings
    from config.models.settings import Settings

kubernetes = group("kubernetes", "Drivers that run as pods.")


def _settings(settings: Settings) -> KubernetesSettings:
    from config.features.kubernetes.settings import KubernetesPart  # noqa: PLC0415  see watcher.cli

    kubernetes = settings.part(KubernetesPart).kubernetes
    if kubernetes is None:
        raise CommandFailed("the configuration has no settings.kubernetes: add it", ExitCode.FAILED)
    return kubernetes


@local_command(kubernetes, "manifest")
def manifest(
    show: Show,
    config: ConfigOption = DEFAULT_CONFIG,
    account: Annotated[
        str, typer.Option(help="The daemon's service account; that of drivers with executors is NAME-drivers.")
    ] = "asset-watcher",
) -> None:
    """Print service account, Role and RoleBinding of the daemon, and of drivers with executors, for `kubectl apply --filename -`."""
    import io  # noqa: PLC0415

    from ruamel.yaml import YAML  # noqa: PLC0415  see watcher.cli

    from watcher.submit.kubernetes.access import roles  # noqa: PLC0415

    documents = roles(_settings(load_settings(config)).namespace, account)
    text = io.StringIO()
    YAML().dump_all(documents, text)
    show({"documents": documents}, text.getvalue)


@local_command(kubernetes, "forget")
def forget(
    show: Show,
    config: ConfigOption = DEFAULT_CONFIG,
    everything: Annotated[bool, typer.Option("--all", help="Also pods of tries that have not ended.")] = False,
) -> None:
    """Remove this database's pods and Secrets from the namespace, such as before the namespace is deleted."""
    settings = load_settings(config)
    _settings(settings)
    if not everything:
        raise CommandFailed(
            "the daemon removes the pods of ended tries by itself; give --all to remove those of running ones too",
            ExitCode.FAILED,
        )
    removed = anyio.run(_forget, settings)
    show({"removed": removed}, lambda: f"removed {removed} {'pod' if removed == 1 else 'pods'} and their Secrets")


async def _forget(settings: Settings) -> int:
    import os  # noqa: PLC0415

    from store.processes import installation  # noqa: PLC0415  see watcher.cli
    from watcher.cli.database import opened_database  # noqa: PLC0415
    from watcher.submit.kubernetes.api import PodApi  # noqa: PLC0415
    from watcher.submit.kubernetes.removal import remove_all  # noqa: PLC0415
    from watcher.submit.kubernetes.submitter import cluster_of  # noqa: PLC0415

    where = _settings(settings)
    async with opened_database(settings) as database, database.transaction() as connection:
        its_id = await installation.instance(connection, connection.dialect.name)
    async with cluster_of(where, os.environ).connection() as connection:
        return await remove_all(PodApi(connection, where.namespace), its_id)
