"""What Services and their names need on a node: kube-proxy and CoreDNS. kube-proxy adds rules to this machine's iptables."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import httpx
import pytest

from tests.kubernetes_api import DNS, GATEWAY, KubernetesApi, programs, running
from watcher.shared.servers import free_port


@contextlib.contextmanager
def running_services(api: KubernetesApi) -> Iterator[None]:
    """Serve the addresses and names of the node's Services. Skips the test where iptables is missing.

    The rules are the machine's, so another process that serves a node's Services is waited for.
    """
    if which("iptables") is None:
        pytest.skip("kube-proxy needs iptables")
    binaries, kubeconfig, port = programs(), api.folder / "kubeconfig", free_port()
    corefile = api.folder / "Corefile"
    corefile.write_text(
        f"cluster.local:{port} {{\n  errors\n  kubernetes cluster.local {{\n    kubeconfig {kubeconfig} test\n  }}\n}}\n"
    )
    with api.client() as client:
        _create_dns(client, port)
    unlimited = [f"--conntrack-{limit}=0" for limit in ("max-per-core", "min")]  # this machine's own stay as they are
    proxy = [
        *(str(binaries / "kube-proxy"), "--kubeconfig", str(kubeconfig), "--hostname-override", "localhost"),
        *("--proxy-mode", "iptables", "--masquerade-all", *unlimited),
        *("--healthz-bind-address", f"127.0.0.1:{free_port()}", "--metrics-bind-address", f"127.0.0.1:{free_port()}"),
    ]
    dns = [str(binaries / "coredns"), "-conf", str(corefile)]
    with (Path(tempfile.gettempdir()) / "asset-watcher-services.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with running(proxy, api.folder / "proxy.log"), running(dns, api.folder / "dns.log"):
                yield
        finally:
            subprocess.run([binaries / "kube-proxy", "--cleanup"], check=True, capture_output=True)


def _create_dns(client: httpx.Client, port: int) -> None:
    """Lead the address that the kubelet gives to pods to CoreDNS on this machine."""
    ports = [{"name": "dns", "protocol": "UDP", "port": 53}, {"name": "dns-tcp", "protocol": "TCP", "port": 53}]
    service = {"metadata": {"name": "dns"}, "spec": {"clusterIP": DNS, "ports": ports}}
    client.post("/api/v1/namespaces/kube-system/services", json=service).raise_for_status()
    endpoints = {
        "metadata": {"name": "dns", "labels": {"kubernetes.io/service-name": "dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [GATEWAY]}],
        "ports": [{**each, "port": port} for each in ports],
    }
    path = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
    client.post(path, json=endpoints).raise_for_status()
