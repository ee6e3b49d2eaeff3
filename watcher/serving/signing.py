"""The secrets that sign the tokens of tries: where a process has them from, and what it tells the others of them."""

from __future__ import annotations

from collections.abc import Sequence

from config.models.api_settings import ApiSettings
from store.database import Database
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo, SigningKeys
from watcher.errors import StartRefused
from watcher.host.home import Home
from watcher.host.metadata import patiently


def signing_secrets(api: ApiSettings, home: Home, *, alone: bool) -> tuple[bytes, ...]:
    """The first signs, all verify. Raises `StartRefused` where a process that is not alone would make one of its own."""
    if api.secret is not None:
        return tuple(secret.get_secret_value().encode() for secret in api.secret)
    if not alone:
        raise StartRefused(
            "processes with different roles must sign tokens alike: set settings.api.secret to the same text in each"
        )
    return (home.secret(),)


async def publish(database: Database, secrets: Sequence[bytes], process: ProcessInfo) -> SigningKeys:
    """Say what the other processes of the database compare theirs with."""
    keys = SigningKeys.of(secrets, process)

    async def write() -> None:
        async with database.transaction() as connection:
            await triggerers.publish_keys(connection, keys, database.dialect)

    await patiently(write)
    return keys
