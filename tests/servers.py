"""The demo's PostgreSQL and S3, with a fresh database or bucket for each test."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from watcher.shared import servers


@dataclass(frozen=True, kw_only=True)
class PostgresDatabase:
    """A database. Both addresses are those of the superuser."""

    name: str
    dsn: str
    """The address for asyncpg and psycopg."""
    sqlalchemy_url: str
    """The address for `settings.database.url`."""


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A running PostgreSQL, known by the address of its superuser's own database."""

    address: str
    emptied: list[str] = field(default_factory=list)
    """Emptied databases of earlier tests, which are as good as new."""
    shapes: dict[str, Any] = field(default_factory=dict)
    _templates: dict[str, str] = field(default_factory=dict)

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database for asyncpg and psycopg."""
        return make_url(self.address).set(database=database).render_as_string(hide_password=False)

    def sqlalchemy_url(self, database: str = "postgres", *, driver: str = "asyncpg") -> str:
        """Return the address of a database for SQLAlchemy."""
        url = make_url(self.dsn(database)).set(drivername=f"postgresql+{driver}")
        return url.render_as_string(hide_password=False)

    @contextlib.contextmanager
    def database(self, *, template: str = "template1") -> Iterator[PostgresDatabase]:
        """Yield a fresh copy of `template`. At the end it is dropped, and its sessions are ended."""
        name = self.create(template)
        try:
            yield PostgresDatabase(name=name, dsn=self.dsn(name), sqlalchemy_url=self.sqlalchemy_url(name))
        finally:
            self.drop(name)

    def create(self, template: str) -> str:
        """Make a fresh copy of `template` and return its name."""
        name = f"test_{uuid4().hex}"
        self.execute("CREATE DATABASE {} TEMPLATE {}", name, template)
        return name

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """Return the name of a database that `prepare(dsn)` fills once a session, to be copied by `database`."""
        if name not in self._templates:
            database = f"template_{name}_{uuid4().hex}"
            self.execute("CREATE DATABASE {}", database)
            prepare(self.dsn(database))
            self._templates[name] = database
        return self._templates[name]

    def drop_templates(self) -> None:
        for database in (*self._templates.values(), *self.emptied):
            self.drop(database)
        self._templates.clear()
        self.emptied.clear()

    def execute(self, statement: str, *names: str) -> None:
        """Run one statement as superuser, outside a transaction; each `{}` stands for the next of `names`, quoted."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def drop(self, database: str) -> None:
        """Drop a database. FORCE ends sessions but refuses prepared transactions, so these are rolled back first, from inside."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            pending = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
            for (gid,) in pending.fetchall():
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        self.execute("DROP DATABASE {} WITH (FORCE)", database)


@contextlib.contextmanager
def running_postgres(*, version: int = 18, **settings: object) -> Iterator[PostgresServer]:
    """Run a PostgreSQL. `settings` go to its postgresql.conf. WATCHER_TEST_POSTGRES_PROGRAMS takes the place of any version."""
    programs = os.environ.get("WATCHER_TEST_POSTGRES_PROGRAMS")
    if programs is None:
        with servers.running_postgres(version=version, **settings) as address:
            yield PostgresServer(address=address)
        return
    with (
        servers.postgres_folder() as folder,
        servers.running_installation(InstalledPostgres(Path(programs), folder), settings) as address,
    ):
        yield PostgresServer(address=address)


class InstalledPostgres:
    """The programs of a PostgreSQL that is installed in some folder, as a server of the wheel describes itself."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.bin_path, self.pgdata, self.log = programs, folder / "data", folder / "data" / "log"
        self.system_user = "postgres" if os.geteuid() == 0 else None
        self.pgdata.mkdir(mode=0o700)
        if self.system_user is not None:
            folder.chmod(0o755)
            shutil.chown(self.pgdata, self.system_user)

    def ensure_pgdata_inited(self) -> None:
        words = ["initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(self.pgdata)]
        subprocess.run(
            [str(self.bin_path / words[0]), *words[1:]],
            user=self.system_user,
            cwd=self.pgdata,
            check=True,
            stdout=subprocess.DEVNULL,
        )


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """An S3 server over HTTP, with path-style addresses. `client` only fills it."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str
    client: Any


@contextlib.contextmanager
def running_s3() -> Iterator[S3Server]:
    with servers.running_s3() as server:
        yield S3Server(
            endpoint=server.endpoint,
            access_key=servers.ACCESS_KEY,
            secret_key=servers.SECRET_KEY,
            region=servers.REGION,
            client=server.client,
        )


@contextlib.contextmanager
def fresh_bucket(server: S3Server) -> Iterator[str]:
    name = f"test-{uuid4().hex}"
    server.client.create_bucket(Bucket=name)
    try:
        yield name
    finally:
        _delete_bucket(server.client, name)


def _delete_bucket(client: Any, name: str) -> None:
    """Delete a bucket with all versions and unfinished uploads, which would slow down later tests."""
    for upload in client.list_multipart_uploads(Bucket=name).get("Uploads", ()):
        client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    pages = [
        *client.get_paginator("list_object_versions").paginate(Bucket=name)
    ]  # moto lists nothing after a deleted key
    for page in pages:
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        objects = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in found]
        if objects:
            client.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
    client.delete_bucket(Bucket=name)


def external_postgres() -> str | None:
    """Return the address of a PostgreSQL to use instead of starting one. It must allow prepared transactions."""
    return os.environ.get("WATCHER_TEST_POSTGRES")
