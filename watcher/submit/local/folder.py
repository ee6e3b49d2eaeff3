"""A try's folder as the daemon sees it; `shim.py` tells what each file means."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Any

from store.keys import TryKey
from watcher.submit.local import shim


def try_folder(home: Path, key: TryKey) -> Path:
    """A try's own. No run_id in it: that holds colons, and the folder becomes part of the driver's PYTHONPATH."""
    return home / "runs" / key.instance.dag_id / key.task_instance_id / str(key.try_number)


def old_folders(home: Path, before: float, kept: Collection[Path]) -> list[Path]:
    """Those of tries that ended before (seconds since 1970), none of the `kept` ones, nor one in which somebody lives."""
    folders = [path for path in home.glob("runs/*/*/*") if path not in kept]
    return [path for path in folders if _last_change(path) < before and TryFolder(path).is_left()]


def remove_folders(folders: Iterable[Path]) -> int:
    """Remove them and those of runs and jobs that become empty; returns how many."""
    removed = 0
    for folder in folders:
        rmtree(folder, ignore_errors=True)
        removed += not folder.exists()
        with suppress(OSError):
            folder.parent.rmdir()
            folder.parent.parent.rmdir()
    return removed


def _last_change(folder: Path) -> float:
    """Of what is in it; its own files are made when a try begins and when it ends."""
    times = [0.0]
    for path in (folder, folder / "exit.json"):
        with suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times)


@dataclass(frozen=True, kw_only=True)
class Exit:
    """What the shim wrote at the end; `exit_code` is 128 + n after a death by signal n."""

    exit_code: int
    signal: int | None
    stopped: bool
    reason: str
    started_at: str
    ended_at: str
    cpu_seconds: float | None = None
    """Of all its processes; None from a shim of an earlier version, as the next."""
    peak_mb: int | None = None
    """Memory of its largest process."""
    cpu_seconds_before: float = 0.0
    """Of a warm driver, until it was handed over."""


@dataclass(frozen=True, kw_only=True)
class Warm:
    """The driver that was started ahead and runs the try: its own folder, and the tag in its processes' environment."""

    folder: Path
    tag: str


@dataclass(frozen=True)
class TryFolder:
    """The files of one try. Nothing here is cached: the folder is the truth, whichever process looks at it."""

    path: Path

    @property
    def context(self) -> Path:
        """The job's private context: api url, token, credentials."""
        return self.path / "context.json"

    @property
    def scratch(self) -> Path:
        """Where Spark and Python put temporary files; deleted when the try has ended."""
        return self.path / "scratch"

    def make(self) -> None:
        """Durably, like the start marker that will lie in it."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for inner in (self.path / shim.WORK, self.scratch):
            inner.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        os.close(os.open(self.path / "lock", os.O_WRONLY | os.O_CREAT, 0o600))
        for folder in missing:
            shim.sync_folder(folder.parent)

    def write_private(self, name: str, content: str) -> Path:
        """Readable by this user only, there in whole or not at all."""
        path = self.path / name
        unfinished = path.with_name(f".{name}.tmp")
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        return unfinished.rename(path)

    def order(self, argv: list[str]) -> None:
        """Say what to start: from now on, until `withdraw`, a shim of this try may start it."""
        self.write_private("command.json", json.dumps({"argv": argv}))

    def offer(self, warm: Warm) -> None:
        """Say which warm driver may start it, likewise; durably, with all that it needs, when it returns."""
        self.write_private("warm.json", json.dumps({"folder": str(warm.folder), "tag": warm.tag}))
        for file in self.path.glob("*.json"):
            shim.sync_file(file)
        shim.sync_folder(self.path)

    def withdraw(self) -> None:
        """Make sure that no shim still on its way starts the try; only while the lock is held by `unlocked`."""
        for name in ("command.json", "warm.json"):
            (self.path / name).unlink(missing_ok=True)

    def request_stop(self, grace: float) -> None:
        self.write_private("stop.json", json.dumps({"grace": grace}))

    def started(self) -> bool:
        return (self.path / "started.json").exists()

    def started_at(self) -> datetime | None:
        """None, too, when the marker was cut off."""
        content = _read_json(self.path / "started.json")
        return None if content is None or "started_at" not in content else datetime.fromisoformat(content["started_at"])

    def shim_process(self) -> int | None:
        """The shim's process id, which may meanwhile belong to somebody else."""
        content = _read_json(self.path / "started.json")
        return None if content is None else int(content["pid"])

    def warm(self) -> Warm | None:
        """The warm driver that has started it."""
        content = _read_json(self.path / "started.json")
        warm = None if content is None else content.get("warm")
        return None if content is None or warm is None else Warm(folder=Path(warm), tag=content["tag"])

    def machine_restarted(self) -> bool:
        """Whether the machine was started again since the try was; a power cut may also have cut off the marker."""
        content = _read_json(self.path / "started.json")
        return self.started() and (content is None or content.get("boot_id", shim.boot_id()) != shim.boot_id())

    def exit(self) -> Exit | None:
        content = _read_json(self.path / "exit.json")
        return None if content is None else Exit(**content)

    @contextmanager
    def unlocked(self) -> Iterator[bool]:
        """Whether neither shim nor JVM lives; as long as the block runs no shim can start anything.

        The lock is taken shared, so that two probes never mistake each other for a living try.
        """
        with _probed(self.path / "lock") as free:
            warm = self.warm() if free else None
            if warm is None:
                yield free
            else:  # its JVM was there before the try's lock was, and holds its own
                with _probed(warm.folder / "lock") as free_too:
                    yield free_too

    def is_left(self) -> bool:
        """Neither shim nor JVM lives."""
        with self.unlocked() as free:
            return free

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """One submission at a time: the second must not write the files of a try that runs, or ran, already."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def _probed(lock: Path) -> Iterator[bool]:
    """Whether nobody holds the lock, or ever can: there is no such file."""
    try:
        free, descriptor = False, os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(descriptor)


def _read_json(path: Path) -> Mapping[str, Any] | None:
    """None when the file is not there, or was cut off by a machine that went down while it was written."""
    try:
        content: Mapping[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content
