"""Copies of files by open folders and names: written beside their place, compared, and put there without overwriting."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from triggers.cleaning import Outcome

NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK, errno.ENOSYS})
"""Errors where a file cannot have a second name, or not there."""
_CHUNK: Final = 1 << 20


def status_of(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def opened_file(folder: int, place: Sequence[str]) -> Iterator[int | None]:
    try:
        file = os.open("/".join(place), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)


def write_copy(source: int, target: int, name: str) -> None:
    """Write a copy under a name that no file has."""
    status = os.fstat(source)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    copy = os.open(name, flags, stat.S_IMODE(status.st_mode), dir_fd=target)
    try:
        os.lseek(source, 0, os.SEEK_SET)
        while part := os.read(source, _CHUNK):
            while part:
                part = part[os.write(copy, part) :]
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(copy)
    finally:
        os.close(copy)


def publish(target: int, copy: str, name: str) -> Outcome:
    """Give the copy its name, unless a file has it by now."""
    try:
        os.link(copy, name, src_dir_fd=target, dst_dir_fd=target, follow_symlinks=False)
    except FileExistsError:
        os.unlink(copy, dir_fd=target)
        return "exists"
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if status_of(target, name) is not None:
            os.unlink(copy, dir_fd=target)
            return "exists"
        os.rename(copy, name, src_dir_fd=target, dst_dir_fd=target)
    else:
        os.unlink(copy, dir_fd=target)
    make_durable(target)
    return "done"


def has_content(folder: int, name: str, source: int) -> bool:
    """Whether the file has the content of another, which is open."""
    with opened_file(folder, (name,)) as copy:
        if copy is None or not stat.S_ISREG(os.fstat(copy).st_mode):
            return False
        return os.fstat(copy).st_size == os.fstat(source).st_size and _digest(copy) == _digest(source)


def _digest(file: int) -> bytes:
    hashed = hashlib.blake2b(digest_size=16)
    os.lseek(file, 0, os.SEEK_SET)
    while part := os.read(file, _CHUNK):
        hashed.update(part)
    return hashed.digest()


def make_durable(folder: int) -> None:
    """Make the names in a folder durable, where the file system can."""
    with suppress(OSError):
        os.fsync(folder)
