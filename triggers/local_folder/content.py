"""The content of a file of a local folder, as the version that was listed."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Final

from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.local_folder.folder import FolderFile

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
