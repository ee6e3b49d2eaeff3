"""The watched sources: a folder whose times of change are virtual, and tables of rows that only grow."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

from pydantic import Field

from tests.simulation.virtual import EPOCH, current, put
from triggers.base import (
    BaseOptions,
    Finding,
    IncrementalTrigger,
    JsonObject,
    JsonValue,
    Position,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerEvent,
)
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.file_scan.versions import format_moment
from triggers.local_folder import folder as real_folder
from triggers.options import Duration

CHANGED: Final[dict[str, int]] = {}
"""The virtual time of change of each file, in nanoseconds, by path."""
ROWS: Final[list[int]] = []
"""The ids of the rows that are committed, in order."""
FAULTS: Final[dict[str, float]] = {}
"""Until when each source does not answer."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One content of one file, as events name it."""

    path: str
    modified: str


@dataclass(eq=False)
class Folder:
    """A folder that the world writes to. Each version is new: a file is put there as a whole."""

    root: Path
    written: dict[Version, float] = field(default_factory=dict)
    """When each version came."""
    gone: dict[Version, float] = field(default_factory=dict)
    """When each was overwritten or deleted by the world."""
    names_in: dict[Version, tuple[str, ...]] = field(default_factory=dict)
    """The paths of the files that each version of a manifest names."""

    def write(self, name: str) -> Version:
        loop = current()
        moment = EPOCH + loop.ahead + loop.time()
        microseconds = round(moment * 1_000_000)
        path, beside = self.root / "in" / name, self.root / "beside"
        path.parent.mkdir(exist_ok=True, parents=True)
        others = [str(each) for each in sorted(path.parent.glob("[!._]*")) if each.is_file() and each != path]
        content = [name + "x" * len(self.written)] if path.suffix != ".manifest" else others[-3:] or ["lacking"]
        beside.write_text("\n".join(content))
        os.utime(beside, ns=(microseconds * 1000, microseconds * 1000))
        if (before := self.now(name)) is not None:
            self.gone[before] = loop.time()
        beside.rename(path)
        CHANGED[str(path)] = microseconds * 1000
        version = _version(path)
        self.written[version] = loop.time()
        if path.suffix == ".manifest":
            self.names_in[version] = tuple(str(path.parent / each) for each in content)
        loop.note("write", name)
        return version

    def vanish(self, name: str) -> None:
        if (before := self.now(name)) is not None:
            self.gone[before] = current().time()
            (self.root / "in" / name).unlink()
            current().note("vanish", name)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name: at its new place it is as it was, but for its time of change."""
        path, target, before = self.root / "in" / name, self.root / "in" / to, self.now(name)
        if before is None or target.exists():
            return
        path.rename(target)
        loop = current()
        CHANGED[str(target)] = round((EPOCH + loop.ahead + loop.time()) * 1_000_000) * 1000
        self.gone[before] = self.written[_version(target)] = loop.time()
        loop.note("rename", f"{name} {to}")

    def was_cleaned(self, version: Version) -> bool:
        """Whether a version is gone, and the world has not removed it."""
        return version not in self.gone and not self.is_there(version)

    def now(self, name: str) -> Version | None:
        """Return the version that is there."""
        path = self.root / "in" / name
        return _version(path) if path.exists() else None

    def names(self) -> list[str]:
        place = self.root / "in"
        return sorted(str(each.relative_to(place)) for each in place.rglob("*") if each.is_file())

    def is_there(self, version: Version) -> bool:
        path = Path(version.path)
        return path.exists() and _version(path) == version


def _version(path: Path) -> Version:
    microseconds = path.stat().st_mtime_ns // 1000
    return Version(path=str(path), modified=format_moment(microseconds))


class _System:
    """Stands for the module `os` where a folder is listed: files are as they are, changed in virtual time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def stat(self, path: str, **options: Any) -> Any:
        return _status(os.stat(path, **options), str(path))  # noqa: PTH116  it stands for it

    def lstat(self, path: str) -> Any:
        return _status(os.lstat(path), str(path))

    def scandir(self, path: str) -> Any:
        if FAULTS.get("folder", 0) > current().time():
            raise OSError(errno.EIO, "Input/output error", path)
        with os.scandir(path) as entries:
            return _Entries([_Entry(each) for each in sorted(entries, key=lambda each: each.name)])


class _Entries(list["_Entry"]):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class _Entry:
    def __init__(self, entry: os.DirEntry[str]) -> None:
        self._entry = entry
        self.name, self.path = entry.name, entry.path

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        return _status(self._entry.stat(follow_symlinks=follow_symlinks), self.path)


def _status(status: os.stat_result, path: str) -> Any:
    return SimpleNamespace(
        st_mode=status.st_mode,
        st_ino=status.st_ino,
        st_dev=status.st_dev,
        st_size=status.st_size,
        st_mtime_ns=status.st_mtime_ns,
        st_ctime_ns=CHANGED.get(path, status.st_mtime_ns),
    )


class RowsOptions(BaseOptions):
    interval: Duration = timedelta(seconds=2)
    at_once: int = Field(default=3, ge=1)


class Rows(IncrementalTrigger[RowsOptions, None]):
    """Emits ranges of new rows; the highest id is the whole position."""

    Options = RowsOptions
    _seen: int | None = None

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    async def check(self) -> list[Finding]:
        return [Finding.ok("table", "it is read")]

    def source_identity(self) -> JsonValue:
        return {"table": "rows"}

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if self._seen is None:
            stored: Any = None if position is None else position.state
            self._seen = 0 if stored is None else stored["seen"]
        while rows := [each for each in ROWS if each > self._seen][: 2 * self.options.at_once]:
            if FAULTS.get("rows", 0) > current().time():
                raise SourceUnavailable("the table does not answer; wait")
            events: list[TriggerEvent] = []
            for first in range(0, len(rows), self.options.at_once):
                part = rows[first : first + self.options.at_once]
                watermark: JsonObject = {"from": self._seen, "to": part[-1]}
                events.append(TriggerEvent(count=len(part), watermark=watermark, payload={"rows": part}))
                self._seen = part[-1]
            yield TriggerBatch(events=events, position=_position(self._seen), caught_up=self._seen == ROWS[-1])

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002  the old position does not matter
        if to == "now":
            return _position(ROWS[-1] if ROWS else 0)
        if to != "start" and not to.isdecimal():
            raise ConfigurationError(f"there is no row {to!r}; write a number, start or now")
        return _position(0 if to == "start" else int(to))


def _position(seen: int) -> Position:
    return Position(watermark={"up_to": seen}, state={"seen": seen}, rows=RowChanges(clear=True))


def install() -> None:
    """Let folders be listed with virtual times of change."""
    put(real_folder, os=_System())
