"""The accounts of a namespace: what `watcher kubernetes manifest` prints is applied as a person would, and gives all rights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from typer.testing import CliRunner

from watcher.cli.app import app

DAEMON, DRIVERS = "asset-watcher", "asset-watcher-drivers"
_GROUPS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


def printed_documents(namespace: str) -> Sequence[Mapping[str, Any]]:
    """Return what the program prints for a configuration with this namespace."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "watchers.yaml"
        settings = f"settings: {{kubernetes: {{in_cluster: true, namespace: {namespace}}}}}"
        configuration.write_text(f"version: 1\n{settings}\njobs: {{}}\n")
        printed = CliRunner().invoke(app, ["kubernetes", "manifest", "--config", str(configuration), "--json"])
    assert printed.exit_code == 0, printed.output
    documents: Sequence[Mapping[str, Any]] = json.loads(printed.output)["documents"]
    return documents


def apply(client: httpx.Client, namespace: str, documents: Sequence[Mapping[str, Any]]) -> None:
    for document in documents:
        client.post(_GROUPS[document["kind"]].format(namespace), json=document).raise_for_status()


def token_of(client: httpx.Client, namespace: str, account: str) -> str:
    """Return a token of a service account, as its pods have one."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 14_400}}
    answer = client.post(f"{_GROUPS['ServiceAccount'].format(namespace)}/{account}/token", json=review)
    return str(answer.raise_for_status().json()["status"]["token"])


def daemon_token(client: httpx.Client, namespace: str) -> str:
    """Apply what is printed for a namespace, as an administrator, and return a token of the daemon's account."""
    apply(client, namespace, printed_documents(namespace))
    return token_of(client, namespace, DAEMON)
