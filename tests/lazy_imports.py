"""Modules that take seconds to import, which only those who run their tests should wait for, and not all who collect."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class LazyModule:
    """Imported by the first who looks into it. (Python's own lazy modules are imported by pytest, which looks into all it sees.)"""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def lazy_importorskip(name: str, *, reason: str) -> LazyModule:
    """As pytest's importorskip, but imported when it is needed."""
    try:
        is_there = find_spec(name) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        pytest.skip(reason, allow_module_level=True)
    return LazyModule(name)
