"""Modules that take seconds to import, which only those who run their tests should wait for, and not all who collect."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest


def lazy_importorskip(name: str, *, reason: str) -> ModuleType:
    """As pytest's importorskip, but imported by the first who looks into it."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.loader is None:
        pytest.skip(reason, allow_module_level=True)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module
