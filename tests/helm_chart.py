"""Helm, and the chart in deploy/helm: what it renders, and the schemas that an API server has for it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from ruamel.yaml import YAML

from tests.kubernetes_api import programs

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm"
GROUPS = (
    "api/v1",
    "apis/apps/v1",
    "apis/monitoring.coreos.com/v1",
    "apis/networking.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
)


class HelmFailed(Exception):
    """Helm's own words."""


def helm(*words: str) -> str:
    """Run Helm and return its output. Raise `HelmFailed`."""
    answer = subprocess.run([programs() / "helm", *words], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise HelmFailed(answer.stderr)
    return answer.stdout


def rendered(folder: Path, values: Mapping[str, Any]) -> str:
    """Return what the chart makes of some values, as the release `watcher` in the namespace `spark`. Raise `HelmFailed`."""
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    return helm("template", "watcher", str(CHART), "--namespace", "spark", "--values", str(file))


def documents(text: str) -> dict[str, Any]:
    """Return the rendered objects, each under `Kind/name`."""
    loaded = [document for document in YAML(typ="safe").load_all(text) if document]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in loaded}


def write_schemas(api: httpx.Client, folder: Path) -> None:
    """Write a JSON Schema for each kind that the API server knows, for kubeconform. It refuses unknown keys."""
    for group in GROUPS:
        components = api.get(f"/openapi/v3/{group}").raise_for_status().json()["components"]
        for schema in components["schemas"].values():
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)
        for name, schema in components["schemas"].items():
            for kind in schema.get("x-kubernetes-group-version-kind", ()):
                content = {"$ref": f"#/components/schemas/{name}", "components": components}
                (folder / f"{kind['kind'].lower()}.json").write_text(json.dumps(content))


def refusals(text: str, schemas: Path) -> str:
    """Return what kubeconform has against the rendered objects; '' if nothing."""
    words = [programs() / "kubeconform", "-strict", "-schema-location", f"{schemas}/{{{{.ResourceKind}}}}.json", "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False).stdout
