"""The SDK's use of a worker-side backend."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from .backends import AssetScope, TaskScope
from .errors import AssetJobError
from .values import storable

log = logging.getLogger("asset_job")

_PAUSES = (0.2, 1.0, 3.0)
"""Seconds between the attempts to remove a value."""


class Worker:
    """The configured backend, if there is one, made when it is first needed. `spec` is `{"path", "options"}`."""

    def __init__(self, spec: Mapping[str, Any] | None) -> None:
        self.configured = spec is not None
        self._path: str = spec["path"] if spec else ""
        self._options: Mapping[str, Any] = (spec and spec.get("options")) or {}
        self._warned = False
        self.left: list[Any] = []
        """References whose values could not be removed."""

    def stored(self, scope: TaskScope | AssetScope, key: str, value: Any) -> tuple[Any, bool]:
        """What travels for a value, and whether that is a reference. Raises `AssetJobError`."""
        if not self.configured:
            return value, False
        method = getattr(self._backend, f"serialize_{_kind(scope)}_state_store_to_ref", None)
        reference = self._call(f"store {key!r}", method, value=value, key=key, scope=scope)
        return (value, False) if reference is None or reference is value else (storable(key, reference), True)

    def value(self, scope: TaskScope | AssetScope, key: str, stored: Any) -> Any:
        """What a reference leads to; itself, with one warning, where there is no backend. Raises `AssetJobError`."""
        if missing := self._missing():
            if not self._warned:
                self._warned = True
                log.warning("the value of %r is kept elsewhere, and its reference is given instead: %s", key, missing)
            return stored
        method = getattr(self._backend, f"deserialize_{_kind(scope)}_state_store_from_ref", None)
        return self._call(f"read {key!r} from {stored!r}", method, stored)

    def purge(self, scope: TaskScope | AssetScope, references: Iterable[Any]) -> None:
        """Remove what references lead to; what stays behind is in the log and in `left`."""
        for reference in references if self.configured else ():
            try:
                self._purge(scope, reference)
            except AssetJobError as error:
                self.left.append(reference)
                log.error("left behind: %s", error)  # noqa: TRY400 - a trace would tell nothing more

    def _purge(self, scope: TaskScope | AssetScope, reference: Any) -> None:
        method = getattr(self._backend, f"purge_{_kind(scope)}_state_store", None)
        for pause in _PAUSES:
            try:
                self._call(f"remove {reference!r}", method, reference)
            except AssetJobError as error:
                log.warning("%s; it is tried again", error)
                time.sleep(pause)
            else:
                return
        self._call(f"remove {reference!r}", method, reference)

    def _call(self, what: str, method: Any, /, *args: Any, **words: Any) -> Any:
        try:
            return method(*args, **words)
        except Exception as error:
            raise AssetJobError(f"the worker-side backend {self._path} could not {what}: {_words(error)}") from error

    def _missing(self) -> str:
        """Why there is no backend; '' when there is one."""
        if not self.configured:
            return "settings.workers names no backend"
        try:
            _ = self._backend
        except AssetJobError as error:
            return str(error)
        return ""

    @cached_property
    def _backend(self) -> Any:
        module, _, name = self._path.rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)(**self._options)
        except Exception as error:
            raise AssetJobError(
                f"the worker-side backend {self._path} cannot be made: {_words(error)}; send its module along by "
                "the job's spark.py_files, or correct settings.workers"
            ) from error


def _kind(scope: TaskScope | AssetScope) -> str:
    return "task" if isinstance(scope, TaskScope) else "asset"


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
