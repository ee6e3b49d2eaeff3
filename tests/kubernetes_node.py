"""A cluster of one real node: kubelet, containerd, scheduler and controllers, with an image of Python and no registry."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import which

import anyio
import pytest

from tests.effort import PATIENCE
from tests.kubernetes_api import ADMIN, DNS, GATEWAY, SERVICES, KubernetesApi, Program, programs, running, running_api
from tests.kubernetes_images import PAUSE, PYTHON, write_driver_image, write_pause_image
from tests.network_link import NetworkLink, network_link
from watcher.shared.servers import free_port

_CNI = Path("/usr/lib/cni")
_ADDRESSES = Path("/var/lib/cni/networks/test")
_IMAGES = ("pause.tar", "driver.tar")


@dataclass(frozen=True, kw_only=True)
class KubernetesNode(KubernetesApi):
    """The cluster, with the programs of its only node."""

    kubelet: Program = field(repr=False)
    containerd: Program = field(repr=False)
    link: NetworkLink = field(repr=False)
    """The network between the kubelet and the API server."""

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def load(self, image: Path) -> None:
        """Give the node an image that it could not pull."""
        self.ctr("images", "import", str(image))

    def ctr(self, *words: str) -> str:
        """Ask containerd itself, behind the kubelet's back."""
        ctr = ["ctr", "-a", str(self.socket), "-n", "k8s.io", *words]
        return subprocess.run(ctr, check=True, capture_output=True, text=True).stdout

    def kill_containers(self) -> None:
        """End all containers at once, as a machine does that loses its power. They would outlive containerd itself."""
        for task in self.ctr("tasks", "ls", "-q").split():
            with contextlib.suppress(subprocess.CalledProcessError):  # it has just ended
                self.ctr("tasks", "rm", "-f", task)
        _release_addresses(self.ctr("containers", "ls", "-q").split())

    def forget_containers(self) -> None:
        """End all containers, and have containerd start with nothing but its images: it has lost what it knew."""
        self.kill_containers()
        self.containerd.kill()
        _kill_shims(self.socket)
        for name in ("containerd", "containerd-state"):
            unmount(self.folder / name)
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.containerd.start()
        anyio.run(until, partial(_answers, self))
        for image in _IMAGES:
            self.load(self.folder / image)


@contextlib.contextmanager
def running_node(folder: Path) -> Iterator[KubernetesNode]:
    """Run a cluster, with all that it keeps in `folder`. Skips the test where that is not possible."""
    missing = [name for name in ("containerd", "ctr", "runc", "busybox") if which(name) is None]
    missing += [str(path) for path in (_CNI / "bridge", PYTHON) if not path.exists()]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"a node of Kubernetes needs root, and here misses {', '.join(missing) or 'nothing else'}")
    with running_api(folder) as api, network_link("127.0.0.1", api.port) as link, contextlib.ExitStack() as stack:
        kubeconfig = _write_settings(folder, api)
        kubelets = write_kubeconfig(folder / "kubelet.kubeconfig", api, f"https://127.0.0.1:{link.port}")
        binaries = programs()
        kubelet = [
            *(str(binaries / "kubelet"), "--config", str(folder / "kubelet.yaml"), "--kubeconfig", str(kubelets)),
            *("--root-dir", str(folder / "kubelet"), "--cert-dir", str(folder / "kubelet-pki")),
            *("--hostname-override", "localhost"),  # by this name the API server asks it for logs
        ]
        of_all = ["--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port", "0"]
        controllers = [str(binaries / "kube-controller-manager"), *of_all]
        controllers += ["--service-account-private-key-file", str(folder / "sa.key")]
        controllers += ["--root-ca-file", str(api.authority)]
        stack.callback(unmount, folder)
        containerd = Program(["containerd", "-c", str(folder / "containerd.toml")], folder / "containerd.log")
        node = KubernetesNode(
            address=api.address,
            folder=folder,
            server=api.server,
            kubelet=Program(kubelet, folder / "kubelet.log"),
            containerd=containerd,
            link=link,
        )
        stack.callback(_kill_shims, node.socket)
        stack.callback(containerd.end)
        containerd.start()
        anyio.run(until, node.socket.exists)
        stack.callback(node.kill_containers)
        for image in (write_pause_image(folder), write_driver_image(folder)):
            node.load(image)
        stack.callback(node.kubelet.end)
        node.kubelet.start()
        stack.enter_context(running([str(binaries / "kube-scheduler"), *of_all], folder / "scheduler.log"))
        stack.enter_context(running(controllers, folder / "controllers.log"))
        anyio.run(until, lambda: _is_ready(api))
        yield node


def _kill_shims(socket: Path) -> None:
    """End the processes that containerd leaves between itself and its containers, when it is killed before they end."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"containerd-shim" in command and str(socket).encode() in command:
                os.kill(int(process.name), signal.SIGKILL)


def local_volume(folder: Path, storage_class: str = "") -> dict[str, object]:
    """Return a volume of a node of this machine that is the folder, under the folder's name."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["localhost"]}
    return {
        "metadata": {"name": folder.name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def _release_addresses(containers: Collection[str]) -> None:
    """Give back what containers had that nobody took down in order. All nodes of this machine share a bridge and its addresses."""
    for file in _ADDRESSES.glob("*.*.*.*"):
        with contextlib.suppress(FileNotFoundError):
            if file.read_text().split()[0] in containers:
                file.unlink()


def unmount(folder: Path) -> None:
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((place for place in places if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)


def _write_settings(folder: Path, api: KubernetesApi) -> Path:
    """Write the settings of containerd and the kubelet, and return the kubeconfig.

    Two of them are for containers within containers: `failCgroupV1`, `restrict_oom_score_adj`.
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
    snapshotter = "{_snapshotter(folder)}"
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
    return write_kubeconfig(folder / "kubeconfig", api, api.address)


def write_kubeconfig(path: Path, api: KubernetesApi, address: str) -> Path:
    cluster = {"server": address, "certificate-authority": str(api.authority)}
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


def _snapshotter(folder: Path) -> str:
    """The quickest way in which containerd can keep images here: it needs a mount that a container may not be allowed."""
    lower, upper, work, merged = (folder / f"probe-{name}" for name in ("lower", "upper", "work", "merged"))
    for each in (lower, upper, work, merged):
        each.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "probe", "-o", options, str(merged)], check=False, capture_output=True
    )
    if mounted.returncode:
        return "native"
    subprocess.run(["umount", str(merged)], check=True)
    return "overlayfs"


def _is_ready(api: KubernetesApi) -> bool:
    with api.client() as client:
        nodes = client.get("/api/v1/nodes").json()["items"]
    return any(not node["spec"].get("taints") for node in nodes)


def _answers(node: KubernetesNode) -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return bool(node.ctr("version"))
    return False


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.1)
