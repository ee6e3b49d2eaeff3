"""Signing in to a watched PostgreSQL: a password that changes, a token of RDS, and TLS with certificates from files."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute, SocketStream, TaskStatus
from anyio.streams.tls import TLSStream
from psycopg import sql
from sqlalchemy import text

from config.reading.settings_loader import load_settings
from store.errors import DatabaseUnavailable
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.conftest import mortal
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.postgres.connection import PostgresConnection
from triggers.shared.postgres.failures import driver_errors
from triggers.shared.postgres.passwords import rds_tokens
from watcher.host.database_address import connections_to_database
from watcher.installed import known_settings

pytestmark = pytest.mark.service
ROLE = "watching"
SSL_REQUEST = bytes.fromhex("0000000804d2162f")
TOKEN_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "an example",
    "AWS_DEFAULT_REGION": "eu-central-1",
}


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """An authority, and what it signed for the server and for one client."""

    folder: Path

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        made = cls(folder=folder)
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        for name in ("authority", "stranger"):
            run(
                "openssl",
                "req",
                "-x509",
                *key,
                "-keyout",
                made[f"{name}.key"],
                "-out",
                made[f"{name}.crt"],
                "-subj",
                f"/CN={name}",
                "-days",
                "2",
            )
        for name, subject in (("server", "localhost"), ("client", ROLE)):
            run(
                "openssl",
                "req",
                *key,
                "-keyout",
                made[f"{name}.key"],
                "-out",
                made[f"{name}.csr"],
                "-subj",
                f"/CN={subject}",
                "-addext",
                "subjectAltName=DNS:localhost",
            )
            run(
                "openssl",
                "x509",
                "-req",
                "-in",
                made[f"{name}.csr"],
                "-CA",
                made["authority.crt"],
                "-CAkey",
                made["authority.key"],
                "-CAcreateserial",
                "-out",
                made[f"{name}.crt"],
                "-days",
                "2",
                "-copy_extensions",
                "copy",
            )
        return made

    def __getitem__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.made_in(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        server.execute("CREATE ROLE {} LOGIN", ROLE)
        rules = mortal(server).data / "pg_hba.conf"
        rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.execute("SELECT pg_reload_conf()")
        change(server, "known")
        yield server


@pytest.fixture
async def door(server: PostgresServer, certificates: Certificates) -> AsyncIterator[Door]:
    async with anyio.create_task_group() as tasks:
        door = Door(server=server, certificates=certificates)
        door.port = await tasks.start(door.run)
        yield door
        tasks.cancel_scope.cancel()


@dataclass(kw_only=True)
class Door:
    """The server behind TLS, which the tests' PostgreSQL is built without. It refuses who does not ask for TLS."""

    server: PostgresServer
    certificates: Certificates
    wants_certificate: bool = False
    port: int = 0

    async def run(self, *, task_status: TaskStatus[int]) -> None:
        async with await anyio.create_tcp_listener(local_host="localhost", local_port=0, family=AF_INET) as listener:
            task_status.started(listener.extra(SocketAttribute.local_port))  # noqa: S610  not Django's
            await listener.serve(self._serve)

    async def _serve(self, plain: SocketStream) -> None:
        with suppress(OSError, ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with plain:
                if await plain.receive(8) != SSL_REQUEST:
                    return
                await plain.send(b"S")
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.certificates["authority.crt"])
                context.load_cert_chain(self.certificates["server.crt"], self.certificates["server.key"])
                context.verify_mode = ssl.CERT_REQUIRED if self.wants_certificate else ssl.CERT_NONE
                async with await TLSStream.wrap(
                    plain, server_side=True, ssl_context=context, standard_compatible=False
                ) as client:
                    address = urlsplit(self.server.dsn())
                    behind = await anyio.connect_tcp(str(address.hostname), int(address.port or 0))
                    async with behind, anyio.create_task_group() as tasks:
                        tasks.start_soon(forward, client, behind, tasks.cancel_scope)
                        tasks.start_soon(forward, behind, client, tasks.cancel_scope)


async def forward(source: ByteReceiveStream, target: ByteSendStream, both: anyio.CancelScope) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for packet in source:
            await target.send(packet)
    both.cancel()


def change(server: PostgresServer, password: str) -> None:
    """Give the role another password and end its sessions."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(sql.SQL("ALTER ROLE watching PASSWORD {}").format(sql.Literal(password)))
        admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'watching'")


def parts(door: Door, **values: object) -> Mapping[str, object]:
    return {
        "host": "localhost",
        "port": door.port,
        "user": ROLE,
        "database": "postgres",
        "sslmode": "require",
        **values,
    }


async def who(connection: PostgresConnection) -> str:
    """Sign in, and return who is signed in."""
    with driver_errors():
        session = await connection.connect()
        try:
            return str(await session.fetchval("SELECT session_user"))
        finally:
            await session.close()


@pytest.mark.parametrize("with_dsn", [False, True])
async def test_a_password_from_a_file_is_that_of_now(door: Door, tmp_path: Path, with_dsn: bool) -> None:
    file = tmp_path / "password"
    given = dict(parts(door))
    if with_dsn:
        given = {"dsn": f"postgresql://{ROLE}:outdated@localhost:{given['port']}/postgres?sslmode=require"}
    connection = PostgresConnection.model_validate({**given, "password": {"file": file}})
    for password in ("first", "p@ss/wörd ?"):
        file.write_text(f"{password}\n")
        change(door.server, password)
        assert await who(connection) == ROLE
        shown = PostgresConnection.model_validate(await connection.reveal_now())
        assert await who(shown) == ROLE


async def test_all_who_wait_share_one_call_and_a_refused_password_is_asked_for_once_more(
    door: Door, tmp_path: Path
) -> None:
    file, calls = tmp_path / "password", tmp_path / "calls"
    source = "import sys; print(open(sys.argv[1]).read()); open(sys.argv[2], 'a').write('x')"
    command = [sys.executable, "-c", source, str(file), str(calls)]
    connection = PostgresConnection.model_validate(parts(door, password={"command": command, "ttl": "1h"}))

    async def sign_in_five_times() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(who, connection)

    for number, password in enumerate(("one", "two"), start=1):
        file.write_text(password)
        change(door.server, password)
        await sign_in_five_times()
        assert len(calls.read_text()) == number
    file.write_text("wrong")
    change(door.server, "three")
    with pytest.raises(SourceUnavailable, match="refuses the sign-in"):
        await who(connection)
    assert len(calls.read_text()) == 3


async def test_a_token_is_the_password_and_travels_encrypted(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TOKEN_VARIABLES.items():
        monkeypatch.setenv(name, value)
    connection = PostgresConnection.model_validate(parts(door, sslmode=None, iam=True))
    assert connection.passwords is not None
    change(door.server, await connection.passwords.current())
    assert await who(connection) == ROLE
    shown = await connection.reveal_now()
    assert shown["password"] == await connection.passwords.current()
    assert shown["sslmode"] == "require"
    assert "iam" not in shown


async def test_without_credentials_there_is_no_token(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    connection = PostgresConnection.model_validate(parts(door, iam=True))
    with pytest.raises(SourceUnavailable, match="neither the host localhost nor AWS_DEFAULT_REGION names a region"):
        await who(connection)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with pytest.raises(SourceUnavailable, match="Unable to locate credentials"):
        await who(connection)


async def test_the_server_is_recognized_by_the_authority_in_a_file(door: Door, certificates: Certificates) -> None:
    change(door.server, "known")

    def connection(**values: object) -> PostgresConnection:
        given = parts(door, password="known", sslmode="verify-full", sslrootcert=certificates["authority.crt"])
        return PostgresConnection.model_validate({**given, **values})

    assert await who(connection()) == ROLE
    assert await who(connection(sslmode="verify-ca", host="127.0.0.1")) == ROLE
    with pytest.raises(ConfigurationError, match="certificate was refused"):
        await who(connection(host="127.0.0.1"))
    with pytest.raises(ConfigurationError, match="certificate was refused"):
        await who(connection(sslrootcert=certificates["stranger.crt"]))


@pytest.mark.parametrize("with_dsn", [False, True])
async def test_a_client_may_show_a_certificate(door: Door, certificates: Certificates, with_dsn: bool) -> None:
    change(door.server, "known")
    door.wants_certificate = True
    files = {"sslcert": certificates["client.crt"], "sslkey": certificates["client.key"]}
    given = dict(parts(door, password="known"))
    if with_dsn:
        given = {"dsn": f"postgresql://{ROLE}:known@localhost:{given['port']}/postgres?sslmode=require"}
    assert await who(PostgresConnection.model_validate({**given, **files})) == ROLE
    with pytest.raises(SourceUnavailable):
        await who(PostgresConnection.model_validate(given))


async def test_the_metadata_database_takes_the_same_files(
    door: Door, certificates: Certificates, tmp_path: Path
) -> None:
    change(door.server, "known")
    door.wants_certificate = True
    database = {
        "url": f"postgresql+asyncpg://{ROLE}:known@localhost:{door.port}/postgres",
        "sslmode": "verify-full",
        "sslrootcert": str(certificates["authority.crt"]),
        "sslcert": str(certificates["client.crt"]),
        "sslkey": str(certificates["client.key"]),
    }
    assert await metadata_role(tmp_path, database) == ROLE
    with pytest.raises(DatabaseUnavailable):
        await metadata_role(tmp_path, {**database, "sslrootcert": str(certificates["stranger.crt"])})


async def test_the_metadata_database_takes_a_token(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TOKEN_VARIABLES.items():
        monkeypatch.setenv(name, value)
    tokens = rds_tokens("localhost", door.port, ROLE)
    monkeypatch.setattr(
        "triggers.shared.postgres.passwords.rds_tokens", lambda *where: {("localhost", door.port, ROLE): tokens}[where]
    )
    change(door.server, await tokens.current())
    url = f"postgresql+asyncpg://{ROLE}@localhost:{door.port}/postgres"
    assert await metadata_role(tmp_path, {"url": url, "iam": True}) == ROLE


async def metadata_role(folder: Path, database: Mapping[str, object]) -> str:
    (folder / "watchers.yaml").write_text(json.dumps({"version": 1, "settings": {"database": database}}))
    settings = load_settings(folder / "watchers.yaml", {}, known_settings)
    async with connections_to_database(settings) as opened, opened.reading() as connection:
        return str((await connection.execute(text("SELECT session_user"))).scalar_one())
