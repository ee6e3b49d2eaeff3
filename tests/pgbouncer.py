"""A real PgBouncer before a PostgreSQL, for tests. They are skipped where it is not installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from tests.servers import PostgresServer
from watcher.shared.servers import free_port

PROGRAM = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
MISSING = "PgBouncer is not installed here"


@contextmanager
def running_pgbouncer(server: PostgresServer, folder: Path, **settings: object) -> Iterator[PostgresServer]:
    """Run a PgBouncer that lets everybody in as the superuser of `server`; the addresses of what is yielded lead through it.

    `settings` go to its section `pgbouncer`.
    """
    assert PROGRAM is not None
    address, port = make_url(server.address), free_port()
    own = {"listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any", **settings}
    target = f"* = host={address.host} port={address.port} user={address.username}"
    file = folder / "pgbouncer.ini"
    lines = [f"{name} = {value}" for name, value in own.items()]
    file.write_text("\n".join(["[databases]", target, "[pgbouncer]", *lines, ""]))
    account = () if os.geteuid() else ("-u", "nobody")  # it refuses to run as root
    process = subprocess.Popen([PROGRAM, "-q", *account, str(file)])
    try:
        _await(port, process)
        yield PostgresServer(address=address.set(port=port).render_as_string(hide_password=False))
    finally:
        process.terminate()
        process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"PgBouncer ended with {process.returncode}")
