"""How the configured dotted path becomes the store backend."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Final

from store.base import BaseStoreBackend
from store.database import Database
from store.errors import BackendUnusable
from store.metastore import MetastoreStoreBackend

DEFAULT: Final = "store.metastore.MetastoreStoreBackend"


def load_backend(path: str, options: Mapping[str, Any], database: Database) -> BaseStoreBackend:
    """Make the backend that `settings.store.backend` names, with `settings.store.options` as keyword arguments.

    Only backends that live in the metadata database get it, as their first argument. Raises `BackendUnusable`.
    """
    backend = check_backend(path, options)
    given = (database,) if issubclass(backend, MetastoreStoreBackend) else ()
    try:
        made = backend(*given, **options)
    except Exception as error:
        raise BackendUnusable(
            f"the store backend {path} cannot be made: {error}; correct settings.store.options"
        ) from error
    made.loop = database.loop
    return made


def check_backend(path: str, options: Mapping[str, Any]) -> type[BaseStoreBackend]:
    """Return the class that a dotted path names, if it is complete and accepts the options.

    Raises `BackendUnusable`.
    """
    backend = _class(path)
    given = (None,) if issubclass(backend, MetastoreStoreBackend) else ()
    try:
        inspect.signature(backend).bind(*given, **options)
    except TypeError as error:
        raise BackendUnusable(
            f"settings.store.options do not fit the store backend {path}: {error}; correct the options"
        ) from None
    return backend


def _class(path: str) -> type[BaseStoreBackend]:
    module, _, name = path.rpartition(".")
    try:
        named = getattr(importlib.import_module(module), name)
    except Exception as error:  # a plug-in's module may raise anything
        raise BackendUnusable(
            f"the store backend {path} cannot be imported: {error}; correct settings.store.backend, or put the module on plugins_dir"
        ) from error
    if not (inspect.isclass(named) and issubclass(named, BaseStoreBackend)):
        raise BackendUnusable(
            f"{path} is not a store backend; make it a subclass of store.base.BaseStoreBackend, or correct settings.store.backend"
        )
    if inspect.isabstract(named):
        missing = ", ".join(sorted(named.__abstractmethods__))
        raise BackendUnusable(f"the store backend {path} lacks {missing}; add what is missing")
    return named
