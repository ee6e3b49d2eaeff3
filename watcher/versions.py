"""Which release this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    """The installed release; `unknown` when the program runs from its sources, not installed."""
    try:
        return version("asset-watcher")
    except PackageNotFoundError:
        return "unknown"
