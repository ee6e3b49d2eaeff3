"""A try's folder as the daemon sees it. The head of `shim.py` explains what each file means."""

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
from typing import Any, Self

from store.keys import TryKey
from watcher.submit.local import shim


def try_folder(home: Path, key: TryKey) -> Path:
    """The folder of one try. Its path has no run_id, which holds colons: the folder is put on the driver's PYTHONPATH."""
    return home / "runs" / key.instance.dag_id / key.task_instance_id / str(key.try_number)


def old_folders(home: Path, before: float, kept: Collection[Path]) -> list[Path]:
    """The folders of tries that ended before this time (seconds since 1970), except `kept` ones and those still in use."""
    folders = [path for path in home.glob("runs/*/*/*") if path not in kept]
    return [path for path in folders if _last_change(path) < before and TryFolder(path).is_free()]


def remove_folders(folders: Iterable[Path]) -> int:
    """Remove these folders, and folders of runs and jobs that become empty. Returns how many were removed."""
    removed = 0
    for folder in folders:
        rmtree(folder, ignore_errors=True)
        removed += not folder.exists()
        with suppress(OSError):
            folder.parent.rmdir()
            folder.parent.parent.rmdir()
    return removed


def _last_change(folder: Path) -> float:
    """When a file of the folder itself last changed: those are written when a try begins and when it ends."""
    times = [0.0]
    for path in (folder, folder / "exit.json"):
        with suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times)


@dataclass(frozen=True, kw_only=True)
class ExitRecord:
    """What the shim wrote at the end (exit.json). `exit_code` is 128 + n after a death by signal n."""

    exit_code: int
    signal: int | None
    stopped: bool
    reason: str
    started_at: str
    ended_at: str
    cpu_seconds: float | None = None
    """CPU time of all its processes; None from a shim of an earlier version."""
    peak_mb: int | None = None
    """Memory of its largest process; None from a shim of an earlier version."""
    cpu_seconds_before: float = 0.0
    """What a warm driver had used before it was handed over."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read the record; what a shim of an earlier version did not write has its default."""
        return cls(
            exit_code=content["exit_code"],
            signal=content["signal"],
            stopped=content["stopped"],
            reason=content["reason"],
            started_at=content["started_at"],
            ended_at=content["ended_at"],
            cpu_seconds=content.get("cpu_seconds"),
            peak_mb=content.get("peak_mb"),
            cpu_seconds_before=content.get("cpu_seconds_before", 0.0),
        )


@dataclass(frozen=True, kw_only=True)
class WarmDriverRef:
    """The warm driver that runs a try: its own folder, and the tag in its processes' environment."""

    folder: Path
    tag: str


@dataclass(frozen=True)
class TryFolder:
    """The files of one try. Nothing is cached here: every process reads the folder itself."""

    path: Path

    @property
    def context(self) -> Path:
        """The job's private context: api url, token, credentials."""
        return self.path / "context.json"

    @property
    def scratch(self) -> Path:
        """The folder for temporary files of Spark and Python; deleted when the try has ended."""
        return self.path / "scratch"

    def make(self) -> None:
        """Make the folder. It is durable when this returns, as the start marker in it will be."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for inner in (self.path / shim.WORK, self.scratch):
            inner.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        os.close(os.open(self.path / "lock", os.O_WRONLY | os.O_CREAT, 0o600))
        for folder in missing:
            shim.sync_folder(folder.parent)

    def write_private(self, name: str, content: str) -> Path:
        """Write a file that only this user can read, and that is there in whole or not at all."""
        path = self.path / name
        unfinished = path.with_name(f".{name}.tmp")
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        return unfinished.rename(path)

    def order(self, argv: list[str]) -> None:
        """Write what to start. From now on, until `withdraw`, a shim of this try may start it."""
        self.write_private("command.json", json.dumps({"argv": argv}))

    def offer(self, warm: WarmDriverRef) -> None:
        """Write which warm driver may start it, until `withdraw`. All that it needs is durable when this returns."""
        self.write_private("warm.json", json.dumps({"folder": str(warm.folder), "tag": warm.tag}))
        for file in self.path.glob("*.json"):
            shim.sync_file(file)
        shim.sync_folder(self.path)

    def withdraw(self) -> None:
        """Keep any shim that is under way from starting the try. Call it only while the lock is held by `unlocked`."""
        for name in ("command.json", "warm.json"):
            (self.path / name).unlink(missing_ok=True)

    def request_stop(self, grace: float) -> None:
        self.write_private("stop.json", json.dumps({"grace": grace}))

    def started(self) -> bool:
        return (self.path / "started.json").exists()

    def started_at(self) -> datetime | None:
        """When the try was started; None if it was not, or if the marker is cut off."""
        content = _read_json(self.path / "started.json")
        return None if content is None or "started_at" not in content else datetime.fromisoformat(content["started_at"])

    def shim_process(self) -> int | None:
        """The shim's process id, which may belong to another process by now; None if the try was not started."""
        content = _read_json(self.path / "started.json")
        return None if content is None else int(content["pid"])

    def warm(self) -> WarmDriverRef | None:
        """The warm driver that runs the try; None if it was started cold, or was not started."""
        content = _read_json(self.path / "started.json")
        warm = None if content is None else content.get("warm")
        return None if content is None or warm is None else WarmDriverRef(folder=Path(warm), tag=content["tag"])

    def machine_restarted(self) -> bool:
        """Whether the machine was restarted after the try began. A marker that a power cut has cut off counts as one."""
        content = _read_json(self.path / "started.json")
        return self.started() and (content is None or content.get("boot_id", shim.boot_id()) != shim.boot_id())

    def exit_record(self) -> ExitRecord | None:
        content = _read_json(self.path / "exit.json")
        return None if content is None else ExitRecord.from_json(content)

    @contextmanager
    def unlocked(self) -> Iterator[bool]:
        """Yield whether neither shim nor JVM lives. While the block runs, no shim can start anything.

        The lock is taken shared, so that two probes never mistake each other for a living try.
        """
        with _probed(self.path / "lock") as free:
            warm = self.warm() if free else None
            if warm is None:
                yield free
            else:  # its JVM was there before the try's lock was, and holds the driver's own lock
                with _probed(warm.folder / "lock") as free_too:
                    yield free_too

    def is_free(self) -> bool:
        """Whether neither shim nor JVM lives."""
        with self.unlocked() as free:
            return free

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Admit one submission at a time: a second one must not overwrite the files of a try that was started already."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def _probed(lock: Path) -> Iterator[bool]:
    """Yield whether nobody holds the lock. Without such a file nobody ever can."""
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
    """Return the file's content; None if there is none, or if a machine that went down while writing has cut it off."""
    try:
        content: Mapping[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content
