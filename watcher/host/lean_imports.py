"""Imports libraries without optional parts that nothing here uses, which take a sixth of the time of many commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def import_leanly() -> None:
    """Import structlog without rich's tracebacks, and httpx without its command line, from now on."""
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # how Python says that a module is not to be imported
    sys.meta_path.insert(0, _Without("rich", of="structlog"))


class _Without(MetaPathFinder, Loader):
    """Makes a library believe, while it is imported, that another one is not installed."""

    def __init__(self, other: str, *, of: str) -> None:
        self._other, self._library = other, of

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == self._library else None
        if spec is None or spec.loader is None or self._other in sys.modules:
            return None
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[self._other] = None  # type: ignore[assignment]
        try:
            self._loader.exec_module(module)
        finally:
            del sys.modules[self._other]
