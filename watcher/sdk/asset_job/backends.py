"""Worker-side backends: values that stay where the job can store them, while only references travel to the daemon.

`settings.workers.state_store_backend` names a class; the job's SDK makes it, with `settings.workers.options`, when the
first value is stored or a reference is read. A reference is known by the mark that the daemon keeps beside it, never by its looks.

    from asset_job.backends import BaseStateBackend

    class Vault(BaseStateBackend):
        def serialize_task_state_store_to_ref(self, *, value, key, scope): ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TaskScope:
    """The state of one task instance; an unmapped task has `map_index` -1."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


@dataclass(frozen=True, kw_only=True)
class AssetScope:
    """The state of one asset. Both names are given for the job's inlets and outlets, whichever the job used."""

    name: str | None = None
    uri: str | None = None


class BaseStateBackend:
    """Stores values elsewhere. What is not overridden leaves them in the database.

    Values are JSON values. `serialize_…` stores one and returns its reference, a JSON value as well and always the same
    for a scope and key; None, or the value itself, leaves the value in the database. `purge_…` removes what a reference leads to,
    and does nothing where nothing is. Any of them may raise: the SDK tells the job in a sentence, and repeats a purge.
    """

    def serialize_task_state_store_to_ref(self, *, value: Any, key: str, scope: TaskScope) -> Any:  # noqa: ARG002
        """Store a task instance's value; returns its reference, or None."""
        return None

    def serialize_asset_state_store_to_ref(self, *, value: Any, key: str, scope: AssetScope) -> Any:  # noqa: ARG002
        """Store an asset's value; returns its reference, or None."""
        return None

    def deserialize_task_state_store_from_ref(self, stored: Any) -> Any:
        """The value that a reference leads to."""
        return stored

    def deserialize_asset_state_store_from_ref(self, stored: Any) -> Any:
        """The value that a reference leads to."""
        return stored

    def purge_task_state_store(self, stored: Any) -> None:
        """Remove what a reference leads to."""

    def purge_asset_state_store(self, stored: Any) -> None:
        """Remove what a reference leads to."""
