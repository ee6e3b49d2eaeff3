"""Imports libraries without optional parts that nothing here uses, which take a third of the time of many commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

_ENGINE: Final = "sqlalchemy.ext.asyncio"
_OF_ORM: Final = (f"{_ENGINE}.session", f"{_ENGINE}.scoping")


def import_leanly() -> None:
    """Import structlog without rich's tracebacks, httpx without its command line, SQLAlchemy without its ORM, from now on."""
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # how Python says that a module is not to be imported
    sys.meta_path[:0] = [_Without("rich", of="structlog"), _WithoutSessions(of=_ENGINE)]


class _Changed(MetaPathFinder, Loader):
    """Finds a library that a subclass imports in a way of its own."""

    def __init__(self, *, of: str) -> None:
        self._library = of

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == self._library else None
        if spec is None or spec.loader is None:
            return None
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)


class _Without(_Changed):
    """Makes a library believe, while it is imported, that another one is not installed."""

    def __init__(self, other: str, *, of: str) -> None:
        super().__init__(of=of)
        self._other = other

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return None if self._other in sys.modules else super().find_spec(name, path, target)

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[self._other] = None  # type: ignore[assignment]
        try:
            self._loader.exec_module(module)
        finally:
            del sys.modules[self._other]


class _WithoutSessions(_Changed):
    """Imports SQLAlchemy's asyncio engine without sessions, which need the ORM, until somebody uses a name of theirs."""

    def exec_module(self, module: ModuleType) -> None:
        later: dict[str, str] = {}
        for name in _OF_ORM:
            sys.modules[name] = _NamesOnly(name, later)
        try:
            self._loader.exec_module(module)
        finally:
            for name in _OF_ORM:
                del sys.modules[name]
        for name in {*later, "session", "scoping"} & vars(module).keys():
            delattr(module, name)

        def attribute(name: str) -> Any:
            if name not in later:
                raise AttributeError(f"module {_ENGINE!r} has no attribute {name!r}")
            return getattr(import_module(later[name]), name)

        module.__getattr__ = attribute  # type: ignore[method-assign]  # PEP 562


class _NamesOnly(ModuleType):
    """A module that has every name, and notes in `later` which of them were imported."""

    def __init__(self, name: str, later: dict[str, str]) -> None:
        super().__init__(name)
        self._later = later

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._later[name] = self.__name__
