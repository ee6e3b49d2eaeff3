"""A cluster of one real node: kubelet, containerd, scheduler and controllers, with an image of Python and no registry."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import anyio
import pytest

from tests.effort import PATIENCE
from tests.kubernetes_api import ADMIN, DNS, GATEWAY, SERVICES, KubernetesApi, programs, running, running_api
from tests.kubernetes_images import PAUSE, PYTHON, write_driver_image, write_pause_image
from watcher.demo.servers import free_port

_CNI = Path("/usr/lib/cni")


@contextlib.contextmanager
def running_node(folder: Path) -> Iterator[KubernetesApi]:
    """Run a cluster, with all that it keeps in `folder`. Skips the test where that is not possible."""
    missing = [name for name in ("containerd", "ctr", "runc", "busybox") if which(name) is None]
    missing += [str(path) for path in (_CNI / "bridge", PYTHON) if not path.exists()]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"a node of Kubernetes needs root, and here misses {', '.join(missing) or 'nothing else'}")
    with running_api(folder) as api:
        kubeconfig = _write_settings(folder, api)
        socket = folder / "containerd.sock"
        binaries = programs()
        kubelet = [
            *(str(binaries / "kubelet"), "--config", str(folder / "kubelet.yaml"), "--kubeconfig", str(kubeconfig)),
            *("--root-dir", str(folder / "kubelet"), "--cert-dir", str(folder / "kubelet-pki")),
            *("--hostname-override", "localhost"),  # by this name the API server asks it for logs
        ]
        of_all = ["--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port", "0"]
        controllers = [str(binaries / "kube-controller-manager"), *of_all]
        controllers += [
            "--service-account-private-key-file",
            str(folder / "sa.key"),
            "--root-ca-file",
            str(api.authority),
        ]
        with contextlib.ExitStack() as stack:
            stack.callback(_unmount, folder)
            stack.enter_context(
                running(["containerd", "-c", str(folder / "containerd.toml")], folder / "containerd.log")
            )
            anyio.run(_until, socket.exists)
            stack.callback(_end_containers, socket)
            for image in (write_pause_image(folder), write_driver_image(folder)):
                load_image(folder, image)
            stack.enter_context(running(kubelet, folder / "kubelet.log"))
            stack.enter_context(running([str(binaries / "kube-scheduler"), *of_all], folder / "scheduler.log"))
            stack.enter_context(running(controllers, folder / "controllers.log"))
            anyio.run(_until, lambda: _is_ready(api))
            yield api


def load_image(folder: Path, image: Path) -> None:
    """Give the node of a folder an image that it could not pull."""
    ctr = ["ctr", "-a", str(folder / "containerd.sock"), "-n", "k8s.io", "images", "import", str(image)]
    subprocess.run(ctr, check=True, capture_output=True)


def _end_containers(socket: Path) -> None:
    """End what the kubelet left: containers outlive containerd itself."""
    ctr = ["ctr", "-a", str(socket), "-n", "k8s.io", "tasks"]
    tasks = subprocess.run([*ctr, "ls", "-q"], check=True, capture_output=True, text=True).stdout.split()
    for task in tasks:
        subprocess.run([*ctr, "rm", "-f", task], check=False, capture_output=True)


def _unmount(folder: Path) -> None:
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((place for place in places if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)


def _write_settings(folder: Path, api: KubernetesApi) -> Path:
    """Write the settings of containerd and the kubelet, and return the kubeconfig.

    Three of them are for containers within containers: `failCgroupV1`, `restrict_oom_score_adj`, `snapshotter`.
    """
    (folder / "containerd.toml").write_text(f"""
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_CNI}"
    conf_dir = "{folder}/cni"
""")
    (folder / "cni").mkdir()
    subnet = {"type": "host-local", "ranges": [[{"subnet": f"{GATEWAY.rpartition('.')[0]}.0/24"}]]}
    subnet["routes"] = [{"dst": SERVICES}]
    bridge = {"type": "bridge", "bridge": "awtest0", "isGateway": True, "ipMasq": False, "ipam": subnet}
    network = {"cniVersion": "0.4.0", "name": "test", "plugins": [bridge]}
    (folder / "cni" / "10.conflist").write_text(json.dumps(network))
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(folder / "ca.crt")}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "address": "127.0.0.1",
        "port": free_port(),
        "healthzPort": 0,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "podLogsDir": str(folder / "logs"),
        "localStorageCapacityIsolation": False,
    }
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet))
    path = folder / "kubeconfig"
    cluster = {"server": api.address, "certificate-authority": str(api.authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": ADMIN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path.write_text(json.dumps(content))
    return path


def _is_ready(api: KubernetesApi) -> bool:
    with api.client() as client:
        nodes = client.get("/api/v1/nodes").json()["items"]
    return any(not node["spec"].get("taints") for node in nodes)


async def _until(condition: object) -> None:
    assert callable(condition)
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.1)
