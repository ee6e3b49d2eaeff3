"""`file.new_files`: new or updated files of a local folder, each exactly once."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final, Literal
from urllib.parse import unquote, urlsplit

from anyio.to_thread import run_sync
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from triggers.base import Finding, JsonObject, JsonValue
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.trigger import FileOptions, NewFiles
from triggers.file_scan.versions import NOT_SELECTED, Moment, Page, fingerprint, format_moment
from triggers.options import Duration

_CLOCK_LAG: Final = 20_000
"""Microseconds by which the kernel's coarse clock, which stamps files, may be behind the one we read: two ticks."""


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    """One content of one file. `key` is its path below the watched folder; bytes that are not UTF-8 are shown in hexadecimal."""

    key: str
    path: str
    """As the system knows it."""
    inode: int
    size: int
    written_ns: int
    modified: Moment

    @property
    def fingerprint(self) -> int:
        return fingerprint(b"%d\0%d\0%d\0%b" % (self.inode, self.size, self.written_ns, os.fsencode(self.path)))

    def describe(self) -> JsonObject:
        return {"path": _shown(self.path), "size": self.size, "last_modified": format_moment(self.written_ns // 1000)}


def clock() -> Moment:
    """Not later than the time stamp of anything that is written from now on."""
    return time.time_ns() // 1000 - _CLOCK_LAG


def list_files(root: str, matcher: Matcher) -> list[LocalFile]:
    """All regular files that match, sorted by key; blocks. Symbolic links are followed, but never back into a folder they lie in.

    A file or folder that goes away meanwhile is left out. Raises `ConfigurationError` for a folder that must not be
    read and `SourceUnavailable` when `root` is not there: taking it for empty would forget what was handled.
    """
    try:
        os.stat(root)  # noqa: PTH116 - the rest is os.scandir
        files = [*_walk(root, matcher)]
    except PermissionError as error:
        raise ConfigurationError(f"{error.filename!r} cannot be read; give this process read permission") from error
    except NotADirectoryError as error:
        raise ConfigurationError(f"{error.filename!r} is not a folder; correct the watcher's path") from error
    except OSError as error:
        raise SourceUnavailable(
            f"{root!r} cannot be listed ({error.strerror}); check the watcher's path and the mount"
        ) from error
    return sorted(files, key=lambda file: file.key)


def _walk(root: str, matcher: Matcher) -> Iterator[LocalFile]:
    """Of each folder pending: what starts the keys of its files, and device and inode of those it was reached through."""
    start = matcher.literal.rpartition("/")[0]  # all that can match lies below it
    first = (f"{root}/{start}", f"{start}/") if start else (root, "")
    pending: list[tuple[str, str, frozenset[tuple[int, int]]]] = [(*first, frozenset())]
    while pending:
        folder, prefix, above = pending.pop()
        for entry, status in _entries(folder):
            key = prefix + _shown(entry.name)
            if stat.S_ISREG(status.st_mode):
                if matcher(key):
                    yield _file(key, entry, status)
            elif stat.S_ISDIR(status.st_mode) and (matcher.depth is None or key.count("/") < matcher.depth):
                inode = (status.st_dev, status.st_ino)
                if inode not in above:
                    pending.append((entry.path, f"{key}/", above | {inode}))


def _entries(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            try:
                status = entry.stat()
            except FileNotFoundError:  # gone meanwhile, or a link to nothing
                continue
            except OSError as error:
                if error.errno == errno.ELOOP:  # a link to itself
                    continue
                raise
            yield entry, status


def _file(key: str, entry: os.DirEntry[str], status: os.stat_result) -> LocalFile:
    changed = max(status.st_ctime_ns, entry.stat(follow_symlinks=False).st_ctime_ns)  # a new link to an old file is new
    return LocalFile(
        key=key,
        path=entry.path,
        inode=status.st_ino,
        size=status.st_size,
        written_ns=status.st_mtime_ns,
        modified=changed // 1000,
    )


def _shown(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")


PAGE: Final = 1000
"""Files committed together, at most."""


class FileNewFilesOptions(FileOptions):
    """`match` and `regex` see the path below `path`."""

    path: str
    interval: Duration = Field(default=timedelta(seconds=2), gt=timedelta(0))
    mode: Literal["window", "strict"] = "strict"
    min_age: Duration = timedelta(seconds=2)

    @field_validator("path")
    @classmethod
    def _is_absolute(cls, value: str, info: ValidationInfo) -> str:
        """It names the source, whatever the working folder is; a relative one starts at the configuration's folder."""
        if info.context is not None:
            value = str(info.context.folder / value)
        if not value.startswith("/"):
            raise ValueError("path must be absolute, since it names the source whatever the working folder is")
        return value.rstrip("/") or "/"


@dataclass(frozen=True, kw_only=True)
class FilePage:
    """A part of one listing, made at `clock`."""

    clock: Moment
    last: str | None
    files: Sequence[LocalFile]
    min_size: int

    def __len__(self) -> int:
        return len(self.files)

    def versions(self, since: Moment | None) -> Iterable[LocalFile]:  # noqa: ARG002 - a hint, for larger listings
        return [file for file in self.files if self._selects(file)]

    def fingerprints(self) -> Sequence[int]:
        return [file.fingerprint if self._selects(file) else NOT_SELECTED for file in self.files]

    def version(self, index: int, fingerprint: int) -> LocalFile:  # noqa: ARG002 - the interface
        return self.files[index]

    def _selects(self, file: LocalFile) -> bool:
        return file.size >= self.min_size


class FileNewFiles(NewFiles[FileNewFilesOptions, None]):
    """A version is told by path, inode, size and time of writing; its moment is the ctime, which `mv` sets and cannot be forged.

    A file is held back for `min_age` after its last change, so that whoever writes it can finish. In `mode: window` a
    changed mode or owner makes a file new again once it is older than `lateness`; `strict`, the default, does not care.
    """

    Options: ClassVar[type[BaseModel]] = FileNewFilesOptions

    @classmethod
    def defaults(cls, asset_uri: str) -> JsonObject:
        uri = urlsplit(asset_uri)
        return {"path": unquote(uri.path)} if uri.scheme == "file" and uri.path else {}

    async def check(self) -> list[Finding]:
        try:
            files = await self._listing()
        except ConfigurationError as error:
            message, _, remedy = str(error).partition("; ")
            return [Finding.error("folder", message, remedy)]
        return [Finding.ok("folder", f"{self.options.path!r} is listed: {len(files)} matching files")]

    def source_identity(self) -> JsonValue:
        return self.identity_of("file.new_files", path=self.options.path)

    async def pages(self, after: str | None) -> AsyncGenerator[Page, None]:
        began = clock()
        files = [file for file in await self._listing() if after is None or file.key > after]
        for first in range(0, max(len(files), 1), PAGE):
            part = files[first : first + PAGE]
            last = part[-1].key if len(files) > first + PAGE else None
            yield FilePage(clock=began, last=last, files=part, min_size=self.options.min_size)

    async def _listing(self) -> list[LocalFile]:
        return await run_sync(list_files, self.options.path, self.options.matcher)
