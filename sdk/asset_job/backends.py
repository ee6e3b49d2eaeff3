"""Worker-side backends: values stay where the job can store them, and only references to them are sent to the daemon.

`settings.workers.state_store_backend` names a class. The job's SDK makes an instance with `settings.workers.options` when the
first value is stored or a reference is read. The daemon marks entries that are references; a reference is never recognized by
its form.

    from asset_job.backends import BaseStateBackend

    class Vault(BaseStateBackend):
        def serialize_task_state_store_to_ref(self, *, value, key, scope): ...
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from asset_job.client import storable
from asset_job.errors import AssetJobError


@dataclass(frozen=True, kw_only=True)
class TaskScope:
    """The task instance to which a value belongs. An unmapped task has `map_index` -1."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


@dataclass(frozen=True, kw_only=True)
class AssetScope:
    """The asset to which a value belongs. For the job's inlets and outlets both fields are set, whichever the job used."""

    name: str | None = None
    uri: str | None = None


class BaseStateBackend:
    """Stores values outside of the daemon's database. A method that is not overridden leaves them in the database.

    Values are JSON values. `serialize_…` stores a value and returns its reference, which is a JSON value too and always the
    same for a scope and key. None, or the value itself, leaves the value in the database. `purge_…` removes the value of a
    reference, and does nothing if there is none. Any method may raise: the SDK raises `AssetJobError` with a sentence in the
    job, and repeats a purge.
    """

    def serialize_task_state_store_to_ref(self, *, value: Any, key: str, scope: TaskScope) -> Any:  # noqa: ARG002
        """Store a value of a task instance, and return its reference, or None to leave it in the database."""
        return None

    def serialize_asset_state_store_to_ref(self, *, value: Any, key: str, scope: AssetScope) -> Any:  # noqa: ARG002
        """Store a value of an asset, and return its reference, or None to leave it in the database."""
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


log = logging.getLogger("asset_job")

_PAUSES = (0.2, 1.0, 3.0)
"""Seconds between the attempts to remove a value."""


class WorkerBackend:
    """The configured backend, if any. It is made when it is first needed. `spec` is `{"path", "options"}`."""

    def __init__(self, spec: Mapping[str, Any] | None) -> None:
        self.configured = spec is not None
        self._path: str = spec["path"] if spec else ""
        self._options: Mapping[str, Any] = (spec and spec.get("options")) or {}
        self._warned = False
        self.not_removed: list[Any] = []
        """The references whose values could not be removed."""

    def stored(self, scope: TaskScope | AssetScope, key: str, value: Any) -> tuple[Any, bool]:
        """What to send to the daemon for a value, and whether that is a reference. Raises `AssetJobError`."""
        if not self.configured:
            return value, False
        method = getattr(self._backend, f"serialize_{_kind(scope)}_state_store_to_ref", None)
        reference = self._call(f"store {key!r}", method, value=value, key=key, scope=scope)
        return (value, False) if reference is None or reference is value else (storable(key, reference), True)

    def value(self, scope: TaskScope | AssetScope, key: str, stored: Any) -> Any:
        """The value of a reference. Raises `AssetJobError`.

        Without a usable backend it is the reference itself, and one warning is logged.
        """
        missing = "" if self.configured else "settings.workers names no backend"
        try:
            backend = self._backend if self.configured else None
        except AssetJobError as error:
            missing = str(error)
        if missing:
            if not self._warned:
                self._warned = True
                log.warning(
                    "the value of %r is stored elsewhere, and its reference is returned instead: %s", key, missing
                )
            return stored
        method = getattr(backend, f"deserialize_{_kind(scope)}_state_store_from_ref", None)
        return self._call(f"read {key!r} from {stored!r}", method, stored)

    def purge(self, scope: TaskScope | AssetScope, references: Iterable[Any]) -> None:
        """Remove the values of references. References whose values cannot be removed are logged and kept in `not_removed`."""
        for reference in references if self.configured else ():
            try:
                self._purge(scope, reference)
            except AssetJobError as error:
                self.not_removed.append(reference)
                log.error("not removed: %s", error)  # noqa: TRY400 - a traceback would add nothing

    def _purge(self, scope: TaskScope | AssetScope, reference: Any) -> Any:
        method = getattr(self._backend, f"purge_{_kind(scope)}_state_store", None)
        for pause in _PAUSES:
            try:
                return self._call(f"remove {reference!r}", method, reference)
            except AssetJobError as error:
                log.warning("%s; this is retried", error)
                time.sleep(pause)
        return self._call(f"remove {reference!r}", method, reference)

    def _call(self, action: str, method: Any, /, *args: Any, **keywords: Any) -> Any:
        try:
            return method(*args, **keywords)
        except Exception as error:
            raise AssetJobError(
                f"the worker-side backend {self._path} could not {action}: {_message(error)}"
            ) from error

    @cached_property
    def _backend(self) -> Any:
        module, _, name = self._path.rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)(**self._options)
        except Exception as error:
            raise AssetJobError(
                f"the worker-side backend {self._path} cannot be made: {_message(error)}; send its module along by "
                "the job's spark.py_files, or correct settings.workers"
            ) from error


def _kind(scope: TaskScope | AssetScope) -> str:
    return "task" if isinstance(scope, TaskScope) else "asset"


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__
