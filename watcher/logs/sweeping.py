"""Log files past their time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path


def old(directory: Path, before: float, kept: Collection[Path]) -> list[Path]:
    """Log files of watchers and tries that nobody has written to since `before` (seconds since 1970)."""
    found = [path for part in ("watchers", "runs") for path in (directory / part).rglob("*.log") if path not in kept]
    return [path for path in found if _modified(path) < before]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another clean-up was first
        return float("inf")


def remove(paths: Iterable[Path]) -> int:
    """Remove them and the folders that become empty; returns how many.

    A process that has one of them open notices at its next record and begins a new one.
    """
    removed = 0
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            removed += 1
        for folder in list(path.parents)[:4]:  # runs/dag/run/task/map index
            if folder.name in {"watchers", "runs"}:
                break
            try:
                folder.rmdir()
            except OSError:
                break
    return removed
