"""The paths of log files, and the files past their retention. Every name is checked before it becomes part of a path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}")
_OWNER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~:+-]{0,249}")


class InvalidLogName(ValueError):
    """A name that cannot be part of a log file's path. Nothing was touched."""


@lru_cache(maxsize=4096)
def watcher_log(directory: Path, watcher: str, owner: str) -> Path:
    """Return the file to which the process `owner` appends a watcher's records. Raises `InvalidLogName`."""
    return directory / "watchers" / _checked(_NAME, watcher) / f"{_checked(_OWNER, owner)}.log"


@lru_cache(maxsize=256)
def try_log(directory: Path, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int) -> Path:
    """Return the file with a try's driver output and the daemon's records about it. Raises `InvalidLogName`."""
    parts = (_checked(_NAME, dag_id), _checked(_RUN_ID, run_id), _checked(_NAME, task_id), str(int(map_index)))
    return directory.joinpath("runs", *parts, f"{int(try_number)}.log")


def driver_log(directory: Path, **key: Any) -> Path:
    """Return the file with a copy of the driver's output, for a try whose driver runs elsewhere. `key` is as for `try_log`."""
    return try_log(directory, **key).with_suffix(".driver.log")


def end_of_copy(log: Path) -> Path:
    """Return the file that says how much of a driver's output was copied into `log`."""
    return log.with_suffix(".copied")


def mark_of(log: Path) -> Path:
    """Return the file that says where the end of a try's log begins."""
    return log.with_suffix(".mark")


def event_logs(directory: Path) -> Path:
    """Return the folder of Spark's event logs, one per application, for a history server."""
    return directory / "spark-events"


def rotated(log: Path, stamp: str) -> Path:
    """Return the name of a full file. Stamps sort by time, so names do, too."""
    return log.with_name(f"{log.stem}.{stamp}.log")


def watcher_logs(directory: Path, watcher: str) -> Sequence[Sequence[Path]]:
    """Return a watcher's log files: a sequence for each process that ever hosted it, oldest first. Raises `InvalidLogName`."""
    folder = directory / "watchers" / _checked(_NAME, watcher)
    owners: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.log")):
        owners.setdefault(path.name.split(".")[0], []).append(path)
    return [sorted(files, key=lambda log: "." not in log.stem) for files in owners.values()]  # the current one last


def _checked(pattern: re.Pattern[str], name: str) -> str:
    if not pattern.fullmatch(name):
        raise InvalidLogName(f"{name!r} cannot be part of a log file's path, so there is no log of it")
    return name


def expired(directory: Path, before: float, kept: Collection[Path]) -> list[Path]:
    """Return the log files of watchers, tries and Spark that were not written since `before` (seconds since 1970)."""
    paths = [path for part in ("watchers", "runs") for path in (directory / part).rglob("*.log")]
    paths += (path for path in event_logs(directory).rglob("*") if path.is_file())
    return [path for path in paths if path not in kept and _modified(path) < before]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another clean-up was first
        return float("inf")


def remove(paths: Iterable[Path]) -> int:
    """Remove files, and folders that become empty. Return the number of files.

    A process that has one of them open notices at its next record and begins a new file.
    """
    removed = 0
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            removed += 1
        for beside in (mark_of(path), end_of_copy(path)):
            beside.unlink(missing_ok=True)
        for folder in list(path.parents)[:4]:  # runs/dag/run/task/map index
            if folder.name in {"watchers", "runs", "spark-events"}:
                break
            try:
                folder.rmdir()
            except OSError:
                break
    return removed
