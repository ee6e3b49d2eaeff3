"""Entries of a task instance's store, in Airflow's shape; only a reference says that it is one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from watcher.api.entries import Row
from watcher.api.shapes.base import Shape


class TaskStateStoreResponse(Shape):
    """`updated_at` is null only where the configured store backend keeps no times."""

    key: str
    value: Any
    updated_at: datetime | None
    expires_at: datetime | None
    is_ref: bool = False


class TaskStateStoreCollectionResponse(Shape):
    task_state_store: Sequence[TaskStateStoreResponse]
    total_entries: int


def task_entry(row: Row) -> TaskStateStoreResponse:
    """An entry as Airflow 3.3 shows it; `expires_at` null: never, or nobody knows."""
    known = {name: row[name] for name in ("key", "updated_at", "expires_at", "is_ref")}
    return TaskStateStoreResponse(value=json.loads(row["value"]), **known)
