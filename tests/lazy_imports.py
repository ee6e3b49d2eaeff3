"""Modules that take seconds to import. Only running their tests imports them, collecting tests does not."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class LazyModule:
    """A module that is imported when an attribute is used. (Pytest would import Python's own lazy modules at once.)"""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def lazy_importorskip(name: str, *, reason: str) -> LazyModule:
    """Do what pytest's importorskip does, but import the module only when it is used."""
    try:
        is_there = find_spec(name) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        pytest.skip(reason, allow_module_level=True)
    return LazyModule(name)
