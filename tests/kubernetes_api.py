"""Kubernetes' own API server over etcd, without a node: what it admits, refuses and answers."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from watcher.shared.servers import free_port

VERSION = "1.34.4"
ADMIN = "admin-token"
GATEWAY = "10.88.78.1"
"""The address of this machine as pods of a node see it."""
SERVICES = "10.0.0.0/24"
"""The addresses of Services."""
DNS = "10.0.0.10"
"""The address of the Service that pods ask for names."""


@dataclass
class Program:
    """A program of Kubernetes, whose output goes to a log. It may be killed and started again."""

    argv: list[str]
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self.argv, stdout=output, stderr=output)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
            self.kill()


@dataclass(frozen=True, kw_only=True)
class KubernetesApi:
    """A running API server. `ADMIN` may do anything; every namespace enforces the standard *restricted*."""

    address: str
    folder: Path
    """It has the authority of the server's certificate, and `client.crt` and `client.key` of an administrator."""
    server: Program = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    def client(self, token: str = ADMIN) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.address, verify=False, trust_env=False, headers=headers)  # noqa: S501  a test's own server

    def new_namespace(self) -> str:
        name = f"test-{uuid4().hex[:12]}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        with self.client() as client:
            namespace = {"metadata": {"name": name, "labels": labels}}
            client.post("/api/v1/namespaces", json=namespace).raise_for_status()
            account = {"metadata": {"name": "default"}}  # without controllers nobody else makes it
            made = client.post(f"/api/v1/namespaces/{name}/serviceaccounts", json=account)
            assert made.status_code in {201, 409}, made.text
        return name


def programs() -> Path:
    """The folder of Kubernetes' programs. Skips the test where they are not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "asset-watcher" / "kubernetes" / VERSION
    if not all((folder / name).exists() for name in ("kube-apiserver", "etcd", "coredns")):
        pytest.skip("Kubernetes' programs are not built here: run tools/kubernetes")
    return folder


@contextlib.contextmanager
def running_api(folder: Path) -> Iterator[KubernetesApi]:
    """Run etcd and the API server, with all that they keep in `folder`."""
    binaries = programs()
    client, peer, port = free_port(), free_port(), free_port()
    _make_keys(folder)
    etcd = [
        *(str(binaries / "etcd"), "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"),
        *(
            "--listen-client-urls",
            f"http://127.0.0.1:{client}",
            "--advertise-client-urls",
            f"http://127.0.0.1:{client}",
        ),
        *(
            "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls",
            f"http://127.0.0.1:{peer}",
        ),
        *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
    ]
    server = [
        *(str(binaries / "kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{client}"),
        *("--secure-port", str(port), "--bind-address", "0.0.0.0", "--advertise-address", GATEWAY),  # noqa: S104  pods reach it
        *("--tls-cert-file", str(folder / "server.crt"), "--tls-private-key-file", str(folder / "server.key")),
        *("--service-account-issuer", "https://kubernetes.default.svc"),
        *("--service-account-key-file", str(folder / "sa.pub")),
        *("--service-account-signing-key-file", str(folder / "sa.key")),
        *("--token-auth-file", str(folder / "tokens.csv"), "--authorization-mode", "RBAC"),
        *("--client-ca-file", str(folder / "ca.crt")),
        *(
            "--kubelet-client-certificate",
            str(folder / "client.crt"),
            "--kubelet-client-key",
            str(folder / "client.key"),
        ),
        *("--service-cluster-ip-range", SERVICES),
    ]
    with running(etcd, folder / "etcd.log"), running(server, folder / "api.log") as program:
        api = KubernetesApi(address=f"https://127.0.0.1:{port}", folder=folder, server=program)
        anyio.run(until_ready, api)
        yield api


def _make_keys(folder: Path) -> None:
    """Make the keys of accounts' tokens, and an authority with the certificates of the server and of an administrator."""
    new = "-newkey rsa:2048 -nodes"
    (folder / "names").write_text(
        f"subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1,IP:{GATEWAY}\n"
    )
    signed = "-CA ca.crt -CAkey ca.key -CAcreateserial"
    for arguments in (
        "genrsa -out sa.key 2048",
        "rsa -in sa.key -pubout -out sa.pub",
        f"req -x509 {new} -keyout ca.key -out ca.crt -subj /CN=authority",
        f"req {new} -keyout client.key -out client.csr -subj /O=system:masters/CN=admin",
        f"x509 -req -in client.csr {signed} -out client.crt",
        f"req {new} -keyout server.key -out server.csr -subj /CN=server",
        f"x509 -req -in server.csr {signed} -extfile names -out server.crt",
    ):
        subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')


@contextlib.contextmanager
def running(argv: list[str], log: Path) -> Iterator[Program]:
    program = Program(argv, log)
    program.start()
    try:
        yield program
    finally:
        program.end()


async def until_ready(api: KubernetesApi) -> None:
    with anyio.fail_after(2 * PATIENCE), api.client() as client:
        while not _is_ready(client):
            await anyio.sleep(0.2)


def _is_ready(client: httpx.Client) -> Any:
    with contextlib.suppress(httpx.TransportError):
        return client.get("/readyz").is_success
    return False
