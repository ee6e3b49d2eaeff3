"""A folder's files, as one listing."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from triggers.base import JsonObject
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.versions import Moment, fingerprint, format_moment

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


@dataclass(frozen=True, kw_only=True)
class _Folder:
    """`prefix` starts the keys of its files; `above` are device and inode of the folders it was reached through."""

    path: str
    prefix: str
    above: tuple[tuple[int, int], ...] = ()


def _walk(root: str, matcher: Matcher) -> Iterator[LocalFile]:
    start = matcher.literal.rpartition("/")[0]  # all that can match lies below it
    pending = [_Folder(path=f"{root}/{start}", prefix=f"{start}/") if start else _Folder(path=root, prefix="")]
    while pending:
        folder = pending.pop()
        for entry, status in _entries(folder.path):
            key = folder.prefix + _shown(entry.name)
            if stat.S_ISREG(status.st_mode):
                if matcher(key):
                    yield _file(key, entry, status)
            elif stat.S_ISDIR(status.st_mode) and (matcher.depth is None or key.count("/") < matcher.depth):
                inode = (status.st_dev, status.st_ino)
                if inode not in folder.above:
                    pending.append(_Folder(path=entry.path, prefix=f"{key}/", above=(*folder.above, inode)))


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
