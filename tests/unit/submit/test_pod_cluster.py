"""The cluster and the credentials that a kubeconfig, or a pod's own account, gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from watcher.features.kubernetes.cluster import Cluster, NoCluster, cluster_of_context, own_cluster

USER = {"token": "secret"}


def kubeconfig(
    path: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **more: Any
) -> Path:
    content = {
        "current-context": "work",
        "contexts": [{"name": "work", "context": {"cluster": "c", "user": "u", "namespace": "ignored"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": USER if user is None else user}],
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def read(path: Path, context: str | None = None) -> Cluster:
    return cluster_of_context(context, {"KUBECONFIG": str(path)})


def test_the_current_context_of_the_home_folder_is_the_default(tmp_path: Path) -> None:
    kubeconfig(tmp_path / ".kube" / "config")
    assert cluster_of_context(None, {"HOME": str(tmp_path)}) == Cluster(server="https://k8s:6443", token="secret")


def test_files_stand_beside_the_kubeconfig_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"ca")
    cluster = read(
        kubeconfig(
            tmp_path / "config",
            cluster={"certificate-authority": "ca.pem"},
            user={"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"},
        )
    )
    assert (cluster.authority, cluster.certificate, cluster.key, cluster.token) == (b"ca", b"cert", b"key", None)


def test_a_token_file_is_kept_as_a_file_because_it_is_rotated(tmp_path: Path) -> None:
    cluster = read(kubeconfig(tmp_path / "config", user={"tokenFile": "token", "token": "old"}))
    assert (cluster.token, cluster.token_file) == (None, tmp_path / "token")


def test_the_first_file_with_a_name_wins(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "1", cluster={"server": "https://first"}, contexts=[], users=[])
    second = kubeconfig(tmp_path / "2")
    cluster = cluster_of_context("work", {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert (cluster.server, cluster.token) == ("https://first", "secret")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"user": {"exec": {"command": "aws"}}}, r"signs in by a program \(`exec`\), which is not built"),
        ({"user": {"username": "u", "password": "p"}}, "signs in by a password"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "signs in by an `auth-provider`"),
        ({"cluster": {"insecure-skip-tls-verify": True}}, "does not check the server's certificate"),
        ({"cluster": {"certificate-authority": "missing.pem"}}, r"missing\.pem.* cannot be read"),
        ({"users": []}, "there is no user u"),
        ({"contexts": []}, "there is no context work"),
        ({"current-context": ""}, "no context is current"),
    ],
)
def test_what_cannot_be_used_is_refused_by_a_sentence(tmp_path: Path, content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NoCluster, match=sentence) as refused:
        read(kubeconfig(tmp_path / "config", **content))
    assert not refused.value.retryable


def test_a_kubeconfig_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: [")
    with pytest.raises(NoCluster, match="cannot be read"):
        read(tmp_path / "config", "work")


def test_a_pods_own_account_is_read_from_its_files(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(NoCluster, match="no pod with a service account"):
        own_cluster(environment, tmp_path)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_bytes(b"ca")
    cluster = own_cluster(environment, tmp_path)
    assert (cluster.server, cluster.authority, cluster.token_file) == (
        "https://[fd00::1]:443",
        b"ca",
        tmp_path / "token",
    )
    with pytest.raises(NoCluster):
        own_cluster({}, tmp_path)
