"""Pods as a kubelet and the controllers leave them, for tests of what they mean."""

from __future__ import annotations

from typing import Any

from watcher.features.kubernetes.names import STOPPED

RUNNING = {"running": {"startedAt": "2026-11-26T12:00:00Z"}}


def pod(state: dict[str, Any] | None = None, *, stopped: bool = False, **status: Any) -> dict[str, Any]:
    """A pod whose driver's container is in this state; None: the kubelet has not reported any."""
    containers = [] if state is None else [{"name": "driver", "state": state}]
    return {
        "metadata": {"name": "aw-1", "uid": "u1", "annotations": {STOPPED: "now"} if stopped else {}},
        "spec": {"containers": [{"name": "driver", "resources": {"limits": {"memory": "1Gi"}}}]},
        "status": {"containerStatuses": containers, **status},
    }


def terminated(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, **more}}


def condition(kind: str, status: str, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, **more}
