"""A user's pod template: what it may not set, and how the driver's pod is made from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

DRIVER: Final = "driver"
"""The name of the container that runs the driver. Every other container of a template is a sidecar."""
_OF_POD: Final = frozenset({"restartPolicy", "automountServiceAccountToken", "serviceAccount", "serviceAccountName"})
_OF_METADATA: Final = frozenset(
    {"name", "generateName", "namespace", "finalizers", "ownerReferences", "uid", "resourceVersion"}
)
_FIRST_PROCESS: Final = frozenset({"command", "args"})
_OF_DRIVER: Final = frozenset({"image", "resources", "lifecycle", "livenessProbe", "startupProbe"})


def template_fault(template: Mapping[str, Any]) -> str:
    """What is wrong with a template, as a sentence without subject; '' if nothing is."""
    return next(_faults(template), "")


def _faults(template: Mapping[str, Any]) -> Iterator[str]:
    if others := template.keys() - {"metadata", "spec", "apiVersion", "kind"}:
        yield f"has `{min(others)}`; a pod template has `metadata` and `spec` only"
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        yield "must have mappings as `metadata` and `spec`"
        return
    if ours := metadata.keys() & _OF_METADATA:
        yield f"must not set `metadata.{min(ours)}`, by which the pod is found again; remove it"
    for kind in ("labels", "annotations"):
        if any(str(name).startswith("asset-watcher/") for name in metadata.get(kind) or {}):
            yield f"must not set `metadata.{kind}` that begin with `asset-watcher/`; remove them"
    if ours := spec.keys() & _OF_POD:
        yield f"must not set `spec.{min(ours)}`, which the job's other keys decide; remove it"
    driver = driver_of(template)
    if ours := driver.keys() & _FIRST_PROCESS:
        yield (
            f"must not set `{min(ours)}` of the container `{DRIVER}`: its first process is the daemon's wrapper, which ends the driver "
            "when the daemon does not answer, so that the try can start elsewhere; remove it"
        )
    if ours := driver.keys() & _OF_DRIVER:
        yield f"must not set `{min(ours)}` of the container `{DRIVER}`, which the job's other keys decide; remove it"


def driver_of(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template's own keys of the driver's container."""
    containers = template.get("spec", {}).get("containers") or []
    return next((each for each in containers if each.get("name") == DRIVER), {})


def merged(template: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod with the template's parts below its own. Lists that both have are joined, the pod's own first."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    own_driver = pod["spec"]["containers"][0]
    sidecars = [each for each in spec.get("containers") or [] if each.get("name") != DRIVER]
    return {
        **pod,
        "metadata": _merged_mapping(metadata, pod["metadata"]),
        "spec": {
            **_merged_mapping(spec, pod["spec"]),
            "containers": [_merged_mapping(driver_of(template), own_driver), *sidecars],
        },
    }


def _merged_mapping(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged_keys = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged_keys[key] = _merged_mapping(below[key], above[key])
        elif isinstance(below[key], list) and isinstance(above[key], list):
            merged_keys[key] = [*above[key], *below[key]]
    return merged_keys
