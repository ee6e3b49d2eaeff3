"""From a stored value to the log lines of whoever wrote it."""

from __future__ import annotations

from urllib.parse import quote

from store.base import AssetStoreWriterKind, Writer


def log_url(base_url: str | None, writer: Writer) -> str | None:
    """The address of the lines around a write; None without a `write_id`: then nobody knows which lines they are."""
    if writer.write_id is None:
        return None
    match writer.kind:
        case AssetStoreWriterKind.WATCHER:
            path = f"/api/v2/watchers/{_part(writer.watcher)}/logs?around={_part(writer.write_id)}"
        case AssetStoreWriterKind.TASK:
            of_run = f"/api/v2/dags/{_part(writer.dag_id)}/dagRuns/{_part(writer.run_id)}"
            of_try = f"/taskInstances/{_part(writer.task_id)}/logs/{writer.try_number}"
            path = f"{of_run}{of_try}?around={_part(writer.write_id)}{_map_index(writer.map_index)}"
        case AssetStoreWriterKind.API:
            path = f"/api/v2/audit?write_id={_part(writer.write_id)}"
    return (base_url or "").rstrip("/") + path


def _part(text: str | None) -> str:
    return quote(text or "", safe="")


def _map_index(map_index: int | None) -> str:
    return "" if map_index is None or map_index < 0 else f"&map_index={map_index}"
