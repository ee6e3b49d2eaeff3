"""Where the metadata database is, by the settings, and how its sessions are opened."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, make_url

from store.database import Database, sqlite_url
from store.errors import DatabaseUnavailable, DatabaseUnusable
from triggers.errors import ConfigurationError, SourceUnavailable

if TYPE_CHECKING:
    from config.models.settings import DatabaseSettings, Settings
    from store.database.drivers import Connect
    from triggers.shared.postgres.passwords import PasswordSupply


def database_url(settings: Settings) -> URL:
    """Return the address of the metadata database: the configured one, or the home's embedded one."""
    database = settings.database
    if database.url is None:
        return sqlite_url(settings.home / "watcher.db")
    url = make_url(database.url.get_secret_value())
    mode = database.sslmode
    if database.iam and mode is None and not {"ssl", "sslmode"} & url.query.keys():
        mode = "require"
    files = {"sslrootcert": database.sslrootcert, "sslcert": database.sslcert, "sslkey": database.sslkey}
    tls = {name: str(value) for name, value in {"sslmode": mode, **files}.items() if value is not None}
    return url.difference_update_query(["ssl"] if mode else []).update_query_dict(tls)


def connections_to_database(
    settings: Settings, *, idle_in_transaction_timeout: float = 10.0
) -> AbstractAsyncContextManager[Database]:
    """Open connections to the metadata database, whatever its schema."""
    url = database_url(settings)
    connect = None if url.get_backend_name() == "sqlite" else sessions_with(_passwords(settings.database, url))
    return Database.open(url, idle_in_transaction_timeout=idle_in_transaction_timeout, connect=connect)


def _passwords(database: DatabaseSettings, url: URL) -> PasswordSupply | None:
    from triggers.shared.postgres.passwords import password_supply, rds_tokens  # noqa: PLC0415  not needed for SQLite

    if database.iam:
        return rds_tokens(url.host or "", url.port, url.username or "")
    place = database.password
    return None if place is None else password_supply(place.file, place.command, place.ttl.total_seconds())


def sessions_with(passwords: PasswordSupply | None) -> Connect:
    """Return what opens the metadata database's sessions, as watchers of PostgreSQL open theirs."""
    from triggers.shared.postgres.opener import SessionOpener  # noqa: PLC0415  not needed for SQLite

    opener = SessionOpener(passwords=passwords)

    async def connect(**address: Any) -> Any:
        try:
            return await opener.open(**address)
        except SourceUnavailable as error:
            raise DatabaseUnavailable(str(error)) from error
        except ConfigurationError as error:
            raise DatabaseUnusable(str(error)) from error

    return connect
