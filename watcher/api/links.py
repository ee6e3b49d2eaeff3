"""From a stored value to the log lines of whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote


def log_url(base_url: str | None, writer: Mapping[str, Any]) -> str | None:
    """The address of the lines around a write; None without a `write_id`: then nobody knows which lines they are.

    `writer` has the fields of `store.base.Writer`, `try_number` among them.
    """
    write_id = writer["write_id"]
    if write_id is None:
        return None
    match writer["kind"]:
        case "watcher":
            path = f"/api/v2/watchers/{_part(writer['watcher'])}/logs?around={_part(write_id)}"
        case "task":
            of_run = f"/api/v2/dags/{_part(writer['dag_id'])}/dagRuns/{_part(writer['run_id'])}"
            of_try = f"/taskInstances/{_part(writer['task_id'])}/logs/{writer['try_number']}"
            path = f"{of_run}{of_try}?around={_part(write_id)}{_map_index(writer['map_index'])}"
        case _:
            path = f"/api/v2/audit?write_id={_part(write_id)}"
    return (base_url or "").rstrip("/") + path


def _part(text: str) -> str:
    return quote(text, safe="")


def _map_index(map_index: int) -> str:
    return "" if map_index < 0 else f"&map_index={map_index}"
