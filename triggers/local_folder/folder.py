"""A local folder: its files, their contents, and the check whether anything in it has changed since it was listed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal, TypeAlias

from triggers.base import JsonObject
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.versions import CONTENT_AT, Moment, fingerprint, format_moment
from triggers.local_folder.mounts import unstable_type

_CLOCK_LAG: Final = 20_000
"""Microseconds by which the kernel's coarse clock, which stamps files, may be behind the clock we read: two ticks."""

_ABOVE_COPY_BITS: Final = 64 - CONTENT_AT

Identity: TypeAlias = Literal["auto", "inode", "path"]
"""Whether inode numbers count: where the file system keeps them, always, or never."""

ASIDE: Final = ".asset-watcher"
"""The name of folders that are never listed: files lie there for the moment in which they are removed."""

_Entry: TypeAlias = tuple[str, os.DirEntry[str], os.stat_result, int]
"""A file that matches: its key, the entry of its folder, its status, and when it was changed, in nanoseconds."""


@dataclass(frozen=True, kw_only=True)
class FolderFile:
    """One content of one file. `key` is its path below the watched folder; bytes that are not UTF-8 are shown in hexadecimal."""

    key: str
    path: str
    """The path as the system knows it."""
    inode: int
    size: int
    written_ns: int
    modified: Moment
    by_path: bool = False
    """Inode numbers do not count where it lies."""

    @property
    def fingerprint(self) -> int:
        content = fingerprint(b"path\0%d\0%d\0%b" % (self.size, self.written_ns, os.fsencode(self.path)))
        return content if self.by_path else content ^ inode_bits(self.inode)

    @property
    def aliases(self) -> Sequence[int]:
        """Return the fingerprint of the other kind, and that by the inode number of format 2."""
        other = self.fingerprint ^ inode_bits(self.inode)
        return other, fingerprint(b"%d\0%d\0%d\0%b" % (self.inode, self.size, self.written_ns, os.fsencode(self.path)))

    @property
    def fault(self) -> str | None:
        try:
            os.fsencode(self.path).decode()
        except UnicodeDecodeError:
            return "its name holds bytes that are not UTF-8"
        try:
            format_moment(self.written_ns // 1000)
        except OverflowError:
            return "its time of writing lies outside the years 1 to 9999, which `touch` mends"
        return None

    def describe(self) -> JsonObject:
        written = format_moment(self.written_ns // 1000)
        inode = {} if self.by_path else {"inode": self.inode}
        return {"path": shown_path(self.path), "size": self.size, "last_modified": written, **inode}


def inode_bits(inode: int) -> int:
    """Return bits for `copy_of` that differ for inode numbers close to each other, and rarely agree for others (Fibonacci hashing)."""
    return (inode * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> _ABOVE_COPY_BITS


@dataclass(frozen=True, kw_only=True)
class FolderListing:
    """All files that match, sorted by key. Equal digests mean that nothing has changed that makes a file new."""

    files: Sequence[FolderFile]
    digest: bytes
    unstable_type: str | None = None
    """The type of the file system, if its inode numbers may change and were asked about."""


def clock() -> Moment:
    """A moment that is not later than the time stamp of anything that is written from now on."""
    return time.time_ns() // 1000 - _CLOCK_LAG


def list_files(root: str, matcher: Matcher, identity: Identity = "inode") -> FolderListing:
    """List all regular files that match; blocks. Symbolic links are followed, but never back into a folder they lie in.

    A file or folder that is deleted meanwhile is skipped. Raises `ConfigurationError` for a folder that must not be read
    and `SourceUnavailable` when `root` is missing: treating it as empty would forget what was handled.
    """
    try:
        status = os.stat(root)  # noqa: PTH116 - the rest is os.scandir
        entries = [*_walk(root, matcher)]
    except PermissionError as error:
        raise ConfigurationError(f"{error.filename!r} cannot be read; give this process read permission") from error
    except NotADirectoryError as error:
        raise ConfigurationError(f"{error.filename!r} is not a folder; correct the watcher's path") from error
    except OSError as error:
        raise SourceUnavailable(
            f"{root!r} cannot be listed ({error.strerror}); check the watcher's path and the mount"
        ) from error
    type_ = unstable_type(root, status.st_dev) if identity == "auto" else None
    by_path = identity == "path" or type_ is not None
    files = sorted((_file(*entry, by_path) for entry in entries), key=lambda file: file.key)
    return FolderListing(files=files, digest=_digest(entries), unstable_type=type_)


def walked(root: str) -> Iterator[tuple[str, int]]:
    """Yield key and size of every file below the folder, in the system's order; blocks. Raises OSError."""
    for key, _, status, _ in _walk(root, Matcher()):
        yield key, status.st_size


def file_at(root: str, key: str, identity: Identity = "inode") -> FolderFile | None:
    """Return one regular file by its key, as `list_files` would list it; None: there is none. Blocks. Raises OSError."""
    path = os.path.join(root, key)  # noqa: PTH118 - as os.scandir joins them
    try:
        status, link = os.stat(path), os.lstat(path)  # noqa: PTH116 - the rest is os.scandir
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in _NOWHERE:
            raise
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    is_unstable = identity == "auto" and unstable_type(root, os.stat(root).st_dev) is not None  # noqa: PTH116
    return FolderFile(
        key=key,
        path=path,
        inode=status.st_ino,
        size=status.st_size,
        written_ns=status.st_mtime_ns,
        modified=max(status.st_ctime_ns, link.st_ctime_ns) // 1000,
        by_path=is_unstable or identity == "path",
    )


def is_as_listed(root: str, matcher: Matcher, digest: bytes) -> bool:
    """Whether a new listing would have this digest; blocks, and costs less than a listing. Raises OSError."""
    os.stat(root)  # noqa: PTH116 - the rest is os.scandir
    return _digest(_walk(root, matcher)) == digest


def _digest(entries: Iterable[_Entry]) -> bytes:
    """Digest the entries in the system's order. That order rarely changes by itself; then a poll is made for nothing."""
    hashed = hashlib.blake2b(digest_size=16)
    for _, entry, status, changed_ns in entries:
        numbers = (status.st_ino, status.st_size, status.st_mtime_ns, changed_ns)
        hashed.update(b"%d\0%d\0%d\0%d\0%b\0" % (*numbers, os.fsencode(entry.path)))
    return hashed.digest()


_NOWHERE: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Errors of dangling links: to themselves, behind a file, or to a name that no file can have."""


def _walk(root: str, matcher: Matcher) -> Iterator[_Entry]:
    """Walk the folder without recursion.

    Each pending folder comes with the start of its files' keys, and with device and inode of itself and of the folders above.
    """
    start = matcher.literal.rpartition("/")[0]  # all that can match lies below it
    first = (f"{root}/{start}", f"{start}/") if start else (root, "")
    try:
        status = os.stat(first[0])  # noqa: PTH116 - the rest is os.scandir
    except FileNotFoundError:
        return
    pending = [(*first, frozenset({(status.st_dev, status.st_ino)}))]
    while pending:
        folder, prefix, above = pending.pop()
        for entry, status in _entries(folder):
            key = prefix + shown_path(entry.name)
            if stat.S_ISREG(status.st_mode):
                if matcher(key):
                    yield key, entry, status, _changed_ns(entry, status)
            elif stat.S_ISDIR(status.st_mode) and (matcher.depth is None or key.count("/") < matcher.depth):
                inode = (status.st_dev, status.st_ino)
                if inode not in above and entry.name != ASIDE:
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
            except FileNotFoundError:  # deleted meanwhile, or a dangling link
                continue
            except OSError as error:
                if error.errno not in _NOWHERE:
                    raise
                continue
            yield entry, status


def _changed_ns(entry: os.DirEntry[str], status: os.stat_result) -> int:
    """When the file or the link to it was changed: a new link to an old file is new."""
    return max(status.st_ctime_ns, entry.stat(follow_symlinks=False).st_ctime_ns)


def _file(key: str, entry: os.DirEntry[str], status: os.stat_result, changed_ns: int, by_path: bool) -> FolderFile:
    return FolderFile(
        key=key,
        path=entry.path,
        inode=status.st_ino,
        size=status.st_size,
        written_ns=status.st_mtime_ns,
        modified=changed_ns // 1000,
        by_path=by_path,
    )


def shown_path(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")


_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ESTALE})
"""Errors of a file that was removed, or replaced by something else."""


def content_of(file: FolderFile, most: int) -> bytes | None:
    """Return the content of a listed file, or `most` + 1 bytes of a larger one; blocks. None: it is another version now, or gone.

    Size, time of writing and inode are compared before and after, on the open file. Raises `TriggerError`.
    """
    try:
        with open(file.path, "rb", buffering=0, opener=_without_waiting) as stream:
            if not _is_listed(stream, file):
                return None
            content = _read(stream, most + 1)
            return content if _is_listed(stream, file) else None
    except PermissionError as error:
        raise ConfigurationError(f"{file.path!r} cannot be read; give this process read permission") from error
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise SourceUnavailable(f"{file.path!r} cannot be read ({error.strerror}); check the mount") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe may have taken its place


def _read(stream: BinaryIO, most: int) -> bytes:
    content = b""
    while len(content) < most and (more := stream.read(most - len(content))):
        content += more
    return content


def _is_listed(stream: BinaryIO, file: FolderFile) -> bool:
    status = os.fstat(stream.fileno())
    is_same = (status.st_size, status.st_mtime_ns) == (file.size, file.written_ns)
    return stat.S_ISREG(status.st_mode) and is_same and (file.by_path or status.st_ino == file.inode)
